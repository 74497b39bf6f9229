/* The sandbox's first process: holds the pod's namespaces, reaps orphans, ends on SIGTERM or
 * SIGINT.
 *
 * Freestanding, no libc: the whole program is under a kilobyte, is embedded into bulkhead and needs
 * nothing in its root file system. It is linked by its own rule, never with the rest.
 */
#if defined(__x86_64__)
enum { NR_SIGPROCMASK = 14, NR_WAIT4 = 61, NR_SIGTIMEDWAIT = 128, NR_EXIT_GROUP = 231 };

static long sys4(long n, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return r;
}
#elif defined(__aarch64__)
enum { NR_SIGPROCMASK = 135, NR_WAIT4 = 260, NR_SIGTIMEDWAIT = 137, NR_EXIT_GROUP = 94 };

static long sys4(long n, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "pause.c knows no system call convention for this processor"
#endif

enum { SIG_INT = 2, SIG_TERM = 15, SIG_CHLD = 17, WNOHANG_ = 1 };

void _start(void);

void _start(void)
{
    unsigned long set = 1ul << (SIG_INT - 1) | 1ul << (SIG_TERM - 1) | 1ul << (SIG_CHLD - 1);

    /* As the first process of a pid namespace it would never see an unhandled signal; a blocked one
     * is kept for sigtimedwait instead. */
    (void)sys4(NR_SIGPROCMASK, 0 /* SIG_BLOCK */, (long)&set, 0, sizeof(set));
    for (;;) {
        long sig = sys4(NR_SIGTIMEDWAIT, (long)&set, 0, 0, sizeof(set));

        if (sig == SIG_INT || sig == SIG_TERM)
            (void)sys4(NR_EXIT_GROUP, 0, 0, 0, 0);
        while (sys4(NR_WAIT4, -1, 0, WNOHANG_, 0) > 0)
            ;
    }
}
