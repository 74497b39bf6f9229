#include "base/test.h"
BH_TEST(x) {}
