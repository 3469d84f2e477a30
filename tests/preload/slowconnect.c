/* Preloaded into a program of the tests, makes each connection over a Unix socket take 0.3 s more. */
#include <dlfcn.h>
#include <sys/socket.h>
#include <time.h>

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    static int (*original)(int, const struct sockaddr *, socklen_t);
    const struct timespec pause = {.tv_nsec = 300000000};

    if (!original)
        original = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    if (address->sa_family == AF_UNIX)
        (void)nanosleep(&pause, NULL);
    return original(fd, address, length);
}
