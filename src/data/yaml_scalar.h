/* The scalar rules of YAML 1.1 as the API's YAML library applies them; private to src/data. */
#ifndef BH_DATA_YAML_SCALAR_H
#define BH_DATA_YAML_SCALAR_H

#include "base/str.h"

enum bh_yaml_type {
    BH_YAML_STR,
    BH_YAML_NULL,
    BH_YAML_BOOL,
    BH_YAML_INT,
    BH_YAML_FLOAT,
    BH_YAML_INF, /* not a number and the infinities, which JSON has no text for */
};

struct bh_yaml_scalar {
    enum bh_yaml_type type;
    bool b;   /* BOOL */
    bool neg; /* INT: the sign; the magnitude is in u */
    uint64_t u;
    double d; /* FLOAT, INF */
};

/* What the text of a plain scalar means. */
struct bh_yaml_scalar bh_yaml_resolve(struct bh_str text);

#endif
