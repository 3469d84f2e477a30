/* The inline functions of holdfast.h and holdfast_sets.h, exported for other languages and compilers that do not inline. */
#define HF_INLINE
#include "libclient/holdfast_sets.h"
