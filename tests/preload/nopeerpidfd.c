/* Preloaded: a kernel before Linux 6.5, which has no SO_PEERPIDFD. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict length)
{
    if (level == SOL_SOCKET && option == SO_PEERPIDFD) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return (int)syscall(SYS_getsockopt, fd, level, option, value, length);
}
