/* Field flags beyond enum bh_field_flag that only the published schema reads. */
#ifndef BH_API_DOC_FLAGS_H
#define BH_API_DOC_FLAGS_H

/* Whether a field stands under `required`, where that does not follow from how it is written. */
#define BH_F_DOC_REQUIRED (1 << 13)
#define BH_F_DOC_OPTIONAL (1 << 14)

#endif
