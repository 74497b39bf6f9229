/* Declarations of every function and operator, one row an overload.
 *
 * A signature lists the argument types (the target first), a colon and the result:
 *   z dyn  b bool  i int  u uint  d double  s string  y bytes  t timestamp  r duration  A B
 * parameters lX list(X)  mXY map(X, Y)  oX optional(X)  TX type(X) I net.IP  C net.CIDR  U URL  Q
 * Quantity  V Semver  F NamedFormat Rows of one name stand together; their order decides the result
 * type when several fit.
 */
#include "cel/cel_int.h"

#include <pthread.h>
#include <string.h>

static const struct cel_overload overloads[] = {
    /* clang-format off */
    {"_?_:_", "bAA:A", NULL, 0, CC_ZERO, 0, 0},
    {"_&&_", "bb:b", NULL, 0, CC_ZERO, 0, 0},
    {"_||_", "bb:b", NULL, 0, CC_ZERO, 0, 0},
    {"!_", "b:b", NULL, 0, CC_ONE, 0, 0},
    {"@not_strictly_false", "b:b", NULL, 0, CC_ONE, 0, 0},
    {"_==_", "AA:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_!=_", "AA:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_+_", "yy:y", NULL, 0, CC_ADD_STR, 0, 0},
    {"_+_", "dd:d", NULL, 0, CC_ONE, 0, 0},
    {"_+_", "rr:r", NULL, 0, CC_ONE, 0, 0},
    {"_+_", "rt:t", NULL, 0, CC_ONE, 0, 0},
    {"_+_", "tr:t", NULL, 0, CC_ONE, 0, 0},
    {"_+_", "ii:i", NULL, 0, CC_ONE, 0, 0},
    {"_+_", "lAlA:lA", NULL, 0, CC_ONE, 0, 0},
    {"_+_", "ss:s", NULL, 0, CC_ADD_STR, 0, 0},
    {"_+_", "uu:u", NULL, 0, CC_ONE, 0, 0},
    {"_-_", "dd:d", NULL, 0, CC_ONE, 0, 0},
    {"_-_", "rr:r", NULL, 0, CC_ONE, 0, 0},
    {"_-_", "ii:i", NULL, 0, CC_ONE, 0, 0},
    {"_-_", "tr:t", NULL, 0, CC_ONE, 0, 0},
    {"_-_", "tt:r", NULL, 0, CC_ONE, 0, 0},
    {"_-_", "uu:u", NULL, 0, CC_ONE, 0, 0},
    {"_*_", "dd:d", NULL, 0, CC_ONE, 0, 0},
    {"_*_", "ii:i", NULL, 0, CC_ONE, 0, 0},
    {"_*_", "uu:u", NULL, 0, CC_ONE, 0, 0},
    {"_/_", "dd:d", NULL, 0, CC_ONE, 0, 0},
    {"_/_", "ii:i", NULL, 0, CC_ONE, 0, 0},
    {"_/_", "uu:u", NULL, 0, CC_ONE, 0, 0},
    {"_%_", "ii:i", NULL, 0, CC_ONE, 0, 0},
    {"_%_", "uu:u", NULL, 0, CC_ONE, 0, 0},
    {"-_", "d:d", NULL, 0, CC_ONE, 0, 0},
    {"-_", "i:i", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "bb:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "ii:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "id:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "iu:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "uu:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "ud:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "ui:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "dd:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "di:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "du:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "ss:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_<_", "yy:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_<_", "tt:b", NULL, 0, CC_ONE, 0, 0},
    {"_<_", "rr:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "bb:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "ii:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "id:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "iu:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "uu:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "ud:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "ui:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "dd:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "di:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "du:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "ss:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_<=_", "yy:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_<=_", "tt:b", NULL, 0, CC_ONE, 0, 0},
    {"_<=_", "rr:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "bb:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "ii:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "id:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "iu:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "uu:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "ud:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "ui:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "dd:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "di:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "du:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "ss:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_>_", "yy:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_>_", "tt:b", NULL, 0, CC_ONE, 0, 0},
    {"_>_", "rr:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "bb:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "ii:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "id:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "iu:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "uu:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "ud:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "ui:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "dd:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "di:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "du:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "ss:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_>=_", "yy:b", NULL, 0, CC_COMPARE, 0, 0},
    {"_>=_", "tt:b", NULL, 0, CC_ONE, 0, 0},
    {"_>=_", "rr:b", NULL, 0, CC_ONE, 0, 0},
    {"@in", "AlA:b", NULL, 0, CC_IN_LIST, 0, 0},
    {"@in", "AmAB:b", NULL, 0, CC_ONE, 0, 0},
    {"_[_]", "lAi:A", NULL, 0, CC_ONE, 0, 0},
    {"_[_]", "mABA:B", NULL, 0, CC_ONE, 0, 0},
    {"_[_]", "olAi:oA", NULL, 0, CC_ONE, 0, 0},
    {"_[_]", "omABA:oB", NULL, 0, CC_ONE, 0, 0},
    {"_[?_]", "lAi:oA", NULL, 0, CC_ONE, 0, 0},
    {"_[?_]", "olAi:oA", NULL, 0, CC_ONE, 0, 0},
    {"_[?_]", "mABA:oB", NULL, 0, CC_ONE, 0, 0},
    {"_[?_]", "omABA:oB", NULL, 0, CC_ONE, 0, 0},
    {"_?._", "zs:oz", NULL, 0, CC_ONE, 0, 0},
    {"size", "y:i", cel_f_size, 0, CC_ONE, OV_ANYARG, 0},
    {"size", "y:i", cel_f_size, 1, CC_ONE, OV_ANYARG, 0},
    {"size", "lA:i", cel_f_size, 0, CC_ONE, OV_ANYARG, 0},
    {"size", "lA:i", cel_f_size, 1, CC_ONE, OV_ANYARG, 0},
    {"size", "mAB:i", cel_f_size, 0, CC_ONE, OV_ANYARG, 0},
    {"size", "mAB:i", cel_f_size, 1, CC_ONE, OV_ANYARG, 0},
    {"size", "s:i", cel_f_size, 0, CC_ONE, OV_ANYARG, 0},
    {"size", "s:i", cel_f_size, 1, CC_ONE, OV_ANYARG, 0},
    {"type", "A:TA", cel_f_type, 0, CC_ONE, OV_CONV, 0},
    {"bool", "b:b", cel_f_bool, 0, CC_ONE, OV_CONV, 0},
    {"bool", "s:b", cel_f_bool, 0, CC_ONE, OV_CONV, 0},
    {"bytes", "y:y", cel_f_bytes, 0, CC_ONE, OV_CONV, 0},
    {"bytes", "s:y", cel_f_bytes, 0, CC_SIZE0, OV_CONV, 0},
    {"double", "d:d", cel_f_double, 0, CC_ONE, OV_CONV, 0},
    {"double", "i:d", cel_f_double, 0, CC_ONE, OV_CONV, 0},
    {"double", "s:d", cel_f_double, 0, CC_ONE, OV_CONV, 0},
    {"double", "u:d", cel_f_double, 0, CC_ONE, OV_CONV, 0},
    {"duration", "r:r", cel_f_duration, 0, CC_ONE, OV_CONV, 0},
    {"duration", "i:r", cel_f_duration, 0, CC_ONE, OV_CONV, 0},
    {"duration", "s:r", cel_f_duration, 0, CC_ONE, OV_CONV, 0},
    {"dyn", "A:z", cel_f_dyn, 0, CC_ONE, OV_CONV, 0},
    {"int", "i:i", cel_f_int, 0, CC_ONE, OV_CONV, 0},
    {"int", "d:i", cel_f_int, 0, CC_ONE, OV_CONV, 0},
    {"int", "r:i", cel_f_int, 0, CC_ONE, OV_CONV, 0},
    {"int", "s:i", cel_f_int, 0, CC_ONE, OV_CONV, 0},
    {"int", "t:i", cel_f_int, 0, CC_ONE, OV_CONV, 0},
    {"int", "u:i", cel_f_int, 0, CC_ONE, OV_CONV, 0},
    {"string", "s:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "b:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "y:s", cel_f_string, 0, CC_SIZE0, OV_CONV, 0},
    {"string", "d:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "r:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "i:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "t:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "u:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "I:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"string", "C:s", cel_f_string, 0, CC_ONE, OV_CONV, 0},
    {"timestamp", "t:t", cel_f_timestamp, 0, CC_ONE, OV_CONV, 0},
    {"timestamp", "i:t", cel_f_timestamp, 0, CC_ONE, OV_CONV, 0},
    {"timestamp", "s:t", cel_f_timestamp, 0, CC_ONE, OV_CONV, 0},
    {"uint", "u:u", cel_f_uint, 0, CC_ONE, OV_CONV, 0},
    {"uint", "d:u", cel_f_uint, 0, CC_ONE, OV_CONV, 0},
    {"uint", "i:u", cel_f_uint, 0, CC_ONE, OV_CONV, 0},
    {"uint", "s:u", cel_f_uint, 0, CC_ONE, OV_CONV, 0},
    {"contains", "ss:b", cel_f_contains, 1, CC_CONTAINS, OV_ANYARG, 0},
    {"endsWith", "ss:b", cel_f_ends_with, 1, CC_STARTS, OV_ANYARG, 0},
    {"startsWith", "ss:b", cel_f_starts_with, 1, CC_STARTS, OV_ANYARG, 0},
    {"matches", "ss:b", cel_f_matches, 0, CC_ONE, OV_ANYARG, 0},
    {"matches", "ss:b", cel_f_matches, 1, CC_MATCHES, OV_ANYARG, 0},
    {"getFullYear", "t:i", cel_f_get_year, 1, CC_ONE, 0, 0},
    {"getFullYear", "ts:i", cel_f_get_year, 1, CC_ONE, 0, 0},
    {"getMonth", "t:i", cel_f_get_month, 1, CC_ONE, 0, 0},
    {"getMonth", "ts:i", cel_f_get_month, 1, CC_ONE, 0, 0},
    {"getDayOfYear", "t:i", cel_f_get_yday, 1, CC_ONE, 0, 0},
    {"getDayOfYear", "ts:i", cel_f_get_yday, 1, CC_ONE, 0, 0},
    {"getDate", "t:i", cel_f_get_date, 1, CC_ONE, 0, 0},
    {"getDate", "ts:i", cel_f_get_date, 1, CC_ONE, 0, 0},
    {"getDayOfMonth", "t:i", cel_f_get_mday, 1, CC_ONE, 0, 0},
    {"getDayOfMonth", "ts:i", cel_f_get_mday, 1, CC_ONE, 0, 0},
    {"getDayOfWeek", "t:i", cel_f_get_wday, 1, CC_ONE, 0, 0},
    {"getDayOfWeek", "ts:i", cel_f_get_wday, 1, CC_ONE, 0, 0},
    {"getHours", "t:i", cel_f_get_hours, 1, CC_ONE, 0, 0},
    {"getHours", "ts:i", cel_f_get_hours, 1, CC_ONE, 0, 0},
    {"getHours", "r:i", cel_f_get_hours, 1, CC_ONE, 0, 0},
    {"getMinutes", "t:i", cel_f_get_minutes, 1, CC_ONE, 0, 0},
    {"getMinutes", "ts:i", cel_f_get_minutes, 1, CC_ONE, 0, 0},
    {"getMinutes", "r:i", cel_f_get_minutes, 1, CC_ONE, 0, 0},
    {"getSeconds", "t:i", cel_f_get_seconds, 1, CC_ONE, 0, 0},
    {"getSeconds", "ts:i", cel_f_get_seconds, 1, CC_ONE, 0, 0},
    {"getSeconds", "r:i", cel_f_get_seconds, 1, CC_ONE, 0, 0},
    {"getMilliseconds", "t:i", cel_f_get_millis, 1, CC_ONE, 0, 0},
    {"getMilliseconds", "ts:i", cel_f_get_millis, 1, CC_ONE, 0, 0},
    {"getMilliseconds", "r:i", cel_f_get_millis, 1, CC_ONE, 0, 0},
    {"optional.of", "A:oA", cel_f_opt_of, 0, CC_ONE, 0, 0},
    {"optional.ofNonZeroValue", "A:oA", cel_f_opt_of_non_zero, 0, CC_ONE, 0, 0},
    {"optional.none", ":oA", cel_f_opt_none, 0, CC_ONE, 0, 0},
    {"value", "oA:A", cel_f_opt_value, 1, CC_ONE, 0, 0},
    {"hasValue", "oA:b", cel_f_opt_has_value, 1, CC_ONE, 0, 0},
    {"or", "oAoA:oA", NULL, 1, CC_ZERO, 0, 0},
    {"orValue", "oAA:A", NULL, 1, CC_ZERO, 0, 0},
    {"optional.unwrap", "loA:lA", cel_f_opt_unwrap, 0, CC_UNWRAP, 0, 0},
    {"unwrapOpt", "loA:lA", cel_f_opt_unwrap, 1, CC_UNWRAP, 0, 0},
    {"first", "lA:oA", cel_f_first, 1, CC_FIRST, 0, 0},
    {"last", "lA:oA", cel_f_last, 1, CC_FIRST, 0, 0},
    {"charAt", "si:s", cel_f_char_at, 1, CC_ONE, 0, 0},
    {"indexOf", "ss:i", cel_f_index_of, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"indexOf", "ssi:i", cel_f_index_of, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"indexOf", "lAA:i", cel_f_index_of_list, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"lastIndexOf", "ss:i", cel_f_last_index_of, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"lastIndexOf", "ssi:i", cel_f_last_index_of, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"lastIndexOf", "lAA:i", cel_f_last_index_of_list, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"lowerAscii", "s:s", cel_f_lower_ascii, 1, CC_SIZE0_OWN, OV_BYNAME, 0},
    {"upperAscii", "s:s", cel_f_upper_ascii, 1, CC_SIZE0_OWN, OV_BYNAME, 0},
    {"replace", "sss:s", cel_f_replace, 1, CC_REPLACE, OV_BYNAME, 0},
    {"replace", "sssi:s", cel_f_replace, 1, CC_REPLACE, OV_BYNAME, 0},
    {"split", "ss:ls", cel_f_split, 1, CC_SPLIT, OV_BYNAME, 0},
    {"split", "ssi:ls", cel_f_split, 1, CC_SPLIT, OV_BYNAME, 0},
    {"substring", "si:s", cel_f_substring, 1, CC_SIZE0_OWN, OV_BYNAME, 0},
    {"substring", "sii:s", cel_f_substring, 1, CC_SIZE0_OWN, OV_BYNAME, 0},
    {"trim", "s:s", cel_f_trim, 1, CC_SIZE0_OWN, OV_BYNAME, 0},
    {"join", "ls:s", cel_f_join, 1, CC_JOIN, OV_BYNAME, 0},
    {"join", "lss:s", cel_f_join, 1, CC_JOIN, OV_BYNAME, 0},
    {"format", "slz:s", cel_f_format, 1, CC_FORMAT, 0, 0},
    {"strings.quote", "s:s", cel_f_quote, 0, CC_QUOTE, 0, 0},
    {"isSorted", "li:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"isSorted", "lu:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"isSorted", "ld:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"isSorted", "lb:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"isSorted", "lr:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"isSorted", "lt:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"isSorted", "ls:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"isSorted", "ly:b", cel_f_is_sorted, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"sum", "li:i", cel_f_sum, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"sum", "lu:u", cel_f_sum, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"sum", "ld:d", cel_f_sum, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"sum", "lr:r", cel_f_sum, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "li:i", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "lu:u", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "ld:d", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "lb:b", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "lr:r", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "lt:t", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "ls:s", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"min", "ly:y", cel_f_min, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "li:i", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "lu:u", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "ld:d", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "lb:b", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "lr:r", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "lt:t", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "ls:s", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"max", "ly:y", cel_f_max, 1, CC_TRAVERSE, OV_BYNAME, 0},
    {"slice", "lAii:lA", cel_f_slice, 1, CC_SLICE, 0, 0},
    {"flatten", "llA:lA", cel_f_flatten, 1, CC_FLATTEN, 0, 0},
    {"flatten", "lzi:lz", cel_f_flatten, 1, CC_FLATTEN, 0, 0},
    {"lists.range", "i:li", cel_f_range, 0, CC_RANGE, 0, 0},
    {"reverse", "lA:lA", cel_f_reverse, 1, CC_REVERSE, 0, 0},
    {"distinct", "lA:lA", cel_f_distinct, 1, CC_DISTINCT, 0, 0},
    {"sort", "li:li", cel_f_sort, 1, CC_SORT, 0, 0},
    {"sort", "lu:lu", cel_f_sort, 1, CC_SORT, 0, 0},
    {"sort", "ld:ld", cel_f_sort, 1, CC_SORT, 0, 0},
    {"sort", "lb:lb", cel_f_sort, 1, CC_SORT, 0, 0},
    {"sort", "lr:lr", cel_f_sort, 1, CC_SORT, 0, 0},
    {"sort", "lt:lt", cel_f_sort, 1, CC_SORT, 0, 0},
    {"sort", "ls:ls", cel_f_sort, 1, CC_SORT, 0, 0},
    {"sort", "ly:ly", cel_f_sort, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAli:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAlu:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAld:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAlb:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAlr:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAlt:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAls:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"@sortByAssociatedKeys", "lAly:lA", cel_f_sort_by_keys, 1, CC_SORT, 0, 0},
    {"sets.contains", "lAlA:b", cel_f_sets_contains, 0, CC_SETS_1, 0, 0},
    {"sets.equivalent", "lAlA:b", cel_f_sets_equivalent, 0, CC_SETS_2, 0, 0},
    {"sets.intersects", "lAlA:b", cel_f_sets_intersects, 0, CC_SETS_1, 0, 0},
    {"find", "ss:s", cel_f_find, 1, CC_FIND, OV_BYNAME, 0},
    {"findAll", "ss:ls", cel_f_find_all, 1, CC_FIND_ALL, OV_BYNAME, 0},
    {"findAll", "ssi:ls", cel_f_find_all, 1, CC_FIND_ALL, OV_BYNAME, 0},
    {"url", "s:U", cel_f_url, 0, CC_SIZE0_OWN, OV_BYNAME, 0},
    {"isURL", "s:b", cel_f_is_url, 0, CC_ONE, 0, 0},
    {"getScheme", "U:s", cel_f_url_scheme, 1, CC_ONE, 0, 0},
    {"getHost", "U:s", cel_f_url_host, 1, CC_ONE, 0, 0},
    {"getHostname", "U:s", cel_f_url_hostname, 1, CC_ONE, 0, 0},
    {"getPort", "U:s", cel_f_url_port, 1, CC_ONE, 0, 0},
    {"getEscapedPath", "U:s", cel_f_url_path, 1, CC_ONE, 0, 0},
    {"getQuery", "U:msls", cel_f_url_query, 1, CC_ONE, 0, 0},
    {"isIP", "s:b", cel_f_is_ip, 0, CC_PARSE, OV_BYNAME, 0},
    {"ip", "s:I", cel_f_ip, 0, CC_PARSE, OV_BYNAME, 0},
    {"ip", "C:I", cel_f_cidr_ip, 1, CC_ONE, 0, 0},
    {"ip.isCanonical", "s:b", cel_f_ip_is_canonical, 0, CC_CANONICAL, OV_BYNAME, 0},
    {"family", "I:i", cel_f_ip_family, 1, CC_ONE, 0, 0},
    {"isUnspecified", "I:b", cel_f_ip_is_unspecified, 1, CC_ONE, 0, 0},
    {"isLoopback", "I:b", cel_f_ip_is_loopback, 1, CC_ONE, 0, 0},
    {"isLinkLocalMulticast", "I:b", cel_f_ip_is_ll_multicast, 1, CC_ONE, 0, 0},
    {"isLinkLocalUnicast", "I:b", cel_f_ip_is_ll_unicast, 1, CC_ONE, 0, 0},
    {"isGlobalUnicast", "I:b", cel_f_ip_is_global, 1, CC_ONE, 0, 0},
    {"cidr", "s:C", cel_f_cidr, 0, CC_PARSE, OV_BYNAME, 0},
    {"isCIDR", "s:b", cel_f_is_cidr, 0, CC_PARSE, OV_BYNAME, 0},
    {"containsIP", "CI:b", cel_f_cidr_contains_ip, 1, CC_CONTAINS_IP, OV_BYNAME, 0},
    {"containsIP", "Cs:b", cel_f_cidr_contains_ip, 1, CC_CONTAINS_IP, OV_BYNAME, 0},
    {"containsCIDR", "CC:b", cel_f_cidr_contains_cidr, 1, CC_CONTAINS_CIDR, OV_BYNAME, 0},
    {"containsCIDR", "Cs:b", cel_f_cidr_contains_cidr, 1, CC_CONTAINS_CIDR, OV_BYNAME, 0},
    {"masked", "C:C", cel_f_cidr_masked, 1, CC_ONE, 0, 0},
    {"prefixLength", "C:i", cel_f_cidr_prefix_length, 1, CC_ONE, 0, 0},
    {"quantity", "s:Q", cel_f_quantity, 0, CC_PARSE, OV_BYNAME, 0},
    {"isQuantity", "s:b", cel_f_is_quantity, 0, CC_PARSE, OV_BYNAME, 0},
    {"sign", "Q:i", cel_f_q_sign, 0, CC_ONE, 0, 0},
    {"isInteger", "Q:b", cel_f_q_is_integer, 1, CC_ONE, 0, 0},
    {"asInteger", "Q:i", cel_f_q_as_integer, 1, CC_ONE, 0, 0},
    {"asApproximateFloat", "Q:d", cel_f_q_as_float, 1, CC_ONE, 0, 0},
    {"add", "QQ:Q", cel_f_q_add, 1, CC_ONE, 0, 0},
    {"add", "Qi:Q", cel_f_q_add, 1, CC_ONE, 0, 0},
    {"sub", "QQ:Q", cel_f_q_sub, 1, CC_ONE, 0, 0},
    {"sub", "Qi:Q", cel_f_q_sub, 1, CC_ONE, 0, 0},
    {"isLessThan", "QQ:b", cel_f_q_less, 1, CC_ONE, 0, 0},
    {"isLessThan", "VV:b", cel_f_v_less, 1, CC_ONE, 0, 0},
    {"isGreaterThan", "QQ:b", cel_f_q_greater, 1, CC_ONE, 0, 0},
    {"isGreaterThan", "VV:b", cel_f_v_greater, 1, CC_ONE, 0, 0},
    {"compareTo", "QQ:i", cel_f_q_compare, 1, CC_ONE, 0, 0},
    {"compareTo", "VV:i", cel_f_v_compare, 1, CC_ONE, 0, 0},
    {"semver", "s:V", cel_f_semver, 0, CC_PARSE, OV_BYNAME, 0},
    {"semver", "sb:V", cel_f_semver, 0, CC_PARSE, OV_BYNAME, 0},
    {"isSemver", "s:b", cel_f_is_semver, 0, CC_PARSE, OV_BYNAME, 0},
    {"isSemver", "sb:b", cel_f_is_semver, 0, CC_PARSE, OV_BYNAME, 0},
    {"major", "V:i", cel_f_v_major, 1, CC_ONE, 0, 0},
    {"minor", "V:i", cel_f_v_minor, 1, CC_ONE, 0, 0},
    {"patch", "V:i", cel_f_v_patch, 1, CC_ONE, 0, 0},
    {"format.named", "s:oF", cel_f_format_named, 0, CC_ONE, 0, 0},
    {"format.dns1123Label", ":F", cel_f_format_dns1123Label, 0, CC_ONE, 0, 0},
    {"format.dns1123Subdomain", ":F", cel_f_format_dns1123Subdomain, 0, CC_ONE, 0, 0},
    {"format.dns1035Label", ":F", cel_f_format_dns1035Label, 0, CC_ONE, 0, 0},
    {"format.qualifiedName", ":F", cel_f_format_qualifiedName, 0, CC_ONE, 0, 0},
    {"format.dns1123LabelPrefix", ":F", cel_f_format_dns1123LabelPrefix, 0, CC_ONE, 0, 0},
    {"format.dns1123SubdomainPrefix", ":F", cel_f_format_dns1123SubdomainPrefix, 0, CC_ONE, 0, 0},
    {"format.dns1035LabelPrefix", ":F", cel_f_format_dns1035LabelPrefix, 0, CC_ONE, 0, 0},
    {"format.labelValue", ":F", cel_f_format_labelValue, 0, CC_ONE, 0, 0},
    {"format.uri", ":F", cel_f_format_uri, 0, CC_ONE, 0, 0},
    {"format.uuid", ":F", cel_f_format_uuid, 0, CC_ONE, 0, 0},
    {"format.byte", ":F", cel_f_format_byte, 0, CC_ONE, 0, 0},
    {"format.date", ":F", cel_f_format_date, 0, CC_ONE, 0, 0},
    {"format.datetime", ":F", cel_f_format_datetime, 0, CC_ONE, 0, 0},
    {"validate", "Fs:ols", cel_f_validate, 1, CC_VALIDATE, OV_BYNAME, 0},
    {"cel.@mapInsert", "mABAB:mAB", cel_f_map_insert, 0, CC_ONE, 0, 0},
    {"cel.@mapInsert", "mABmAB:mAB", cel_f_map_merge, 0, CC_ONE, 0, 0},
    {"jsonpatch.escapeKey", "s:s", cel_f_escape_key, 0, CC_SIZE0_OWN, OV_BYNAME, BH_CEL_ENV_MUTATION},
    {"includes", "zz:b", cel_f_includes, 1, CC_INCLUDES, OV_BYNAME, BH_CEL_ENV_INCLUDES},
    {"path", "1s:2", cel_f_az_path, 1, CC_ONE, 0, 0},
    {"group", "1s:3", cel_f_az_group, 1, CC_ONE, 0, 0},
    {"serviceAccount", "1ss:1", cel_f_az_service_account, 1, CC_ONE, 0, 0},
    {"resource", "3s:4", cel_f_az_resource, 1, CC_ONE, 0, 0},
    {"subresource", "4s:4", cel_f_az_subresource, 1, CC_ONE, 0, 0},
    {"namespace", "4s:4", cel_f_az_namespace, 1, CC_ONE, 0, 0},
    {"name", "4s:4", cel_f_az_name, 1, CC_ONE, 0, 0},
    {"fieldSelector", "4s:4", cel_f_az_field_selector, 1, CC_SELECTOR, OV_BYNAME, 0},
    {"labelSelector", "4s:4", cel_f_az_label_selector, 1, CC_SELECTOR, OV_BYNAME, 0},
    {"check", "2s:5", cel_f_az_check, 1, CC_CHECK, OV_BYNAME, 0},
    {"check", "4s:5", cel_f_az_check, 1, CC_CHECK, OV_BYNAME, 0},
    {"allowed", "5:b", cel_f_az_allowed, 1, CC_ONE, 0, 0},
    {"errored", "5:b", cel_f_az_errored, 1, CC_ONE, 0, 0},
    {"error", "5:s", cel_f_az_error, 1, CC_ONE, 0, 0},
    {"reason", "5:s", cel_f_az_reason, 1, CC_ONE, 0, 0},
    /* clang-format on */
};

static const struct {
    const char *name;
    enum cel_op op;
} operators[] = {
    {"_?_:_", OP_COND},
    {"_&&_", OP_AND},
    {"_||_", OP_OR},
    {"!_", OP_NOT},
    {"_==_", OP_EQ},
    {"_!=_", OP_NE},
    {"_+_", OP_ADD},
    {"_-_", OP_SUB},
    {"_*_", OP_MUL},
    {"_/_", OP_DIV},
    {"_%_", OP_MOD},
    {"-_", OP_NEG},
    {"_<_", OP_LT},
    {"_<=_", OP_LE},
    {"_>_", OP_GT},
    {"_>=_", OP_GE},
    {"@in", OP_IN},
    {"_[_]", OP_INDEX},
    {"_[?_]", OP_OPT_INDEX},
    {"_?._", OP_OPT_SELECT},
    {"@not_strictly_false", OP_NSF},
    {"or", OP_OPT_OR},
    {"orValue", OP_OPT_OR_VALUE},
    {"matches", OP_MATCHES},
    {"find", OP_FIND},
    {"findAll", OP_FIND_ALL},
};

#define FUNCS_MAX 256
#define HASH_SIZE 512

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct cel_decl decls[BH_COUNT(overloads)];
static struct cel_func funcs[FUNCS_MAX];
static uint16_t table[HASH_SIZE]; /* function number + 1 */
static const struct bh_cel_type params[2] = {
    {.kind = TK_PARAM, .tvar = 0, .size_max = BH_CEL_SIZE_UNKNOWN},
    {.kind = TK_PARAM, .tvar = 1, .size_max = BH_CEL_SIZE_UNKNOWN}};
/* Types made from signatures live as long as the process. */
static struct bh_arena *sig_arena;

static const struct bh_cel_type *sig_type(const char **p, uint8_t *nparams)
{
    const struct bh_cel_type *x, *y;
    char c = *(*p)++;

    switch (c) {
    case 'z':
        return &cel_t_dyn;
    case 'b':
        return &cel_t_bool;
    case 'i':
        return &cel_t_int;
    case 'u':
        return &cel_t_uint;
    case 'd':
        return &cel_t_double;
    case 's':
        return &cel_t_string;
    case 'y':
        return &cel_t_bytes;
    case 't':
        return &cel_t_timestamp;
    case 'r':
        return &cel_t_duration;
    case 'I':
        return &cel_t_ip;
    case 'C':
        return &cel_t_cidr;
    case 'U':
        return &cel_t_url;
    case 'Q':
        return &cel_t_quantity;
    case 'V':
        return &cel_t_semver;
    case 'F':
        return &cel_t_format;
    case '1':
        return &cel_t_authorizer;
    case '2':
        return &cel_t_path_check;
    case '3':
        return &cel_t_group_check;
    case '4':
        return &cel_t_resource_check;
    case '5':
        return &cel_t_decision;
    case 'A':
    case 'B':
        if (*nparams < c - 'A' + 1)
            *nparams = (uint8_t)(c - 'A' + 1);
        return &params[c - 'A'];
    case 'l':
        return bh_cel_type_list(sig_arena, sig_type(p, nparams), BH_CEL_SIZE_UNKNOWN);
    case 'o':
        return bh_cel_type_optional(sig_arena, sig_type(p, nparams));
    case 'T':
        return cel_type_of_type(sig_arena, sig_type(p, nparams));
    case 'm':
        x = sig_type(p, nparams);
        y = sig_type(p, nparams);
        return bh_cel_type_map(sig_arena, x, y, BH_CEL_SIZE_UNKNOWN);
    default:
        break;
    }
    bh_assert(!"signature");
    return &cel_t_dyn;
}

static uint8_t run_kind(const struct bh_cel_type *t)
{
    static const struct {
        const struct bh_cel_type *t;
        uint8_t kind;
    } objects[] = {{&cel_t_url, BH_CEL_URL},
                   {&cel_t_quantity, BH_CEL_QUANTITY},
                   {&cel_t_semver, BH_CEL_SEMVER},
                   {&cel_t_format, BH_CEL_FORMAT},
                   {&cel_t_authorizer, BH_CEL_AUTHORIZER},
                   {&cel_t_path_check, BH_CEL_PATH_CHECK},
                   {&cel_t_group_check, BH_CEL_GROUP_CHECK},
                   {&cel_t_resource_check, BH_CEL_RESOURCE_CHECK},
                   {&cel_t_decision, BH_CEL_DECISION}};

    switch (t->kind) {
    case TK_NULL:
        return BH_CEL_NULL;
    case TK_BOOL:
        return BH_CEL_BOOL;
    case TK_INT:
        return BH_CEL_INT;
    case TK_UINT:
        return BH_CEL_UINT;
    case TK_DOUBLE:
        return BH_CEL_DOUBLE;
    case TK_STRING:
        return BH_CEL_STRING;
    case TK_BYTES:
        return BH_CEL_BYTES;
    case TK_TIMESTAMP:
        return BH_CEL_TIMESTAMP;
    case TK_DURATION:
        return BH_CEL_DURATION;
    case TK_LIST:
        return BH_CEL_LIST;
    case TK_MAP:
        return BH_CEL_MAP;
    case TK_TYPE:
        return BH_CEL_TYPE;
    case TK_OPAQUE:
        return t->np ? BH_CEL_OPTIONAL : t == &cel_t_ip ? BH_CEL_IP : BH_CEL_CIDR;
    case TK_OBJECT:
        for (size_t i = 0; i < BH_COUNT(objects); i++)
            if (objects[i].t == t)
                return objects[i].kind;
        return 0xff;
    default:
        return 0xff;
    }
}

static uint64_t name_hash(struct bh_str s)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (uint8_t)s.p[i]) * 1099511628211u;
    return h ^ (h >> 32);
}

static void decls_init(void)
{
    size_t nf = 0;

    sig_arena = bh_arena_new(0);
    for (size_t i = 0; i < BH_COUNT(overloads); i++) {
        const char *p = overloads[i].sig;
        struct cel_decl *d = &decls[i];
        struct bh_str name = bh_s(overloads[i].name);

        d->ov = &overloads[i];
        while (*p != ':') {
            bh_assert(d->n < CEL_ARGS_MAX);
            d->args[d->n] = sig_type(&p, &d->params);
            d->kinds[d->n] = run_kind(d->args[d->n]);
            d->n++;
        }
        p++;
        d->result = sig_type(&p, &d->params);
        bh_assert(*p == '\0');
        if (nf == 0 || !bh_str_eq(funcs[nf - 1].name, name)) {
            size_t slot = name_hash(name) % HASH_SIZE;

            bh_assert(nf < FUNCS_MAX);
            funcs[nf].name = name;
            funcs[nf].d = d;
            funcs[nf].id = OP_OTHER;
            for (size_t k = 0; k < BH_COUNT(operators); k++)
                if (bh_str_eqc(name, operators[k].name))
                    funcs[nf].id = (uint16_t)operators[k].op;
            while (table[slot])
                slot = (slot + 1) % HASH_SIZE;
            table[slot] = (uint16_t)++nf;
        }
        funcs[nf - 1].n++;
        bh_assert(funcs[nf - 1].n <= CEL_OVERLOADS_MAX);
    }
}

bool cel_decl_on(const struct cel_decl *d, unsigned env_flags)
{
    return !d->ov->env || (d->ov->env & env_flags);
}

const struct cel_func *cel_func_find(struct bh_str name, unsigned env_flags)
{
    size_t slot = name_hash(name) % HASH_SIZE;

    (void)pthread_once(&once, decls_init);
    for (; table[slot]; slot = (slot + 1) % HASH_SIZE) {
        const struct cel_func *f = &funcs[table[slot] - 1];

        if (bh_str_eq(f->name, name))
            return cel_decl_on(f->d, env_flags) ? f : NULL;
    }
    return NULL;
}

struct bh_cel_env *bh_cel_env_new(unsigned flags)
{
    struct bh_arena *a = bh_arena_new(0);
    struct bh_cel_env *e = bh_new(a, struct bh_cel_env);

    e->arena = a;
    e->flags = flags;
    return e;
}

struct bh_cel_env *bh_cel_env_free(struct bh_cel_env *e)
{
    if (e)
        (void)bh_arena_free(e->arena);
    return NULL;
}

struct bh_arena *bh_cel_env_arena(struct bh_cel_env *e)
{
    return e->arena;
}

size_t bh_cel_env_var(struct bh_cel_env *e, struct bh_str name, const struct bh_cel_type *t)
{
    bh_arena_grow(e->arena, &e->vars, &e->cap, e->nvars + 1, sizeof(*e->vars));
    e->vars[e->nvars].name = bh_str_dup(e->arena, name);
    e->vars[e->nvars].type = t;
    e->vars[e->nvars].dotted = bh_str_chr(name, '.', 0) >= 0;
    e->any_dotted |= e->vars[e->nvars].dotted;
    return e->nvars++;
}
