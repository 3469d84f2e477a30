/* What holdfast.h inlines, as functions: for other languages, and for who does not inline. */
#define HF_INLINE
#include "libclient/holdfast.h"
