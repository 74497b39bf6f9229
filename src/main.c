/* The one program: the first argument, or the name it was called by, selects a command. */
#include <stdio.h>

int main(int argc, char **argv)
{
    (void)argv;
    fprintf(stderr, "bulkhead: no command yet (%d)\n", argc);
    return 2;
}
