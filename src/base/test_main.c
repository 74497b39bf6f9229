/* main() of every unit test binary. */
#include "base/test.h"

int main(int argc, char **argv)
{
    return bh_test_main(argc, argv);
}
