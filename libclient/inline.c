/* The inline functions of holdfast.h, exported for other languages and compilers that do not inline. */
#define HF_INLINE
#include "libclient/holdfast.h"
