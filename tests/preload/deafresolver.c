/* Preloaded into holdfastd, a resolver that never answers for names that end in ".deaf.test". */
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

typedef int resolve_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static int is_deaf(const char *host)
{
    static const char end[] = ".deaf.test";
    size_t len = host ? strlen(host) : 0;

    return len >= sizeof(end) && strcmp(host + len - (sizeof(end) - 1), end) == 0;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_list)
{
    resolve_fn *real = (resolve_fn *)dlsym(RTLD_NEXT, "getaddrinfo");

    while (is_deaf(host))
        pause();
    return real ? real(host, service, hints, ret_list) : EAI_FAIL;
}
