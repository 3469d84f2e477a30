/* A file that is replaced by a copy of itself, as by cp -a and mv. */
#ifndef HOLDFAST_TESTS_COPIED_H
#define HOLDFAST_TESTS_COPIED_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* False: it cannot be. */
static inline bool copied(const char *path)
{
    int from = open(path, O_RDONLY | O_CLOEXEC), to;
    char beside[160];
    struct stat st;
    bool done;

    if (from < 0)
        return false;
    snprintf(beside, sizeof(beside), "%s-copy", path);
    to = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    done = to >= 0 && fstat(from, &st) == 0 && fchmod(to, st.st_mode & 07777) == 0;
    while (done && st.st_size > 0) {
        ssize_t n = sendfile(to, from, NULL, (size_t)st.st_size);

        done = n > 0;
        st.st_size -= n;
    }
    done = done && rename(beside, path) == 0;
    close(from);
    if (to >= 0)
        close(to);
    return done;
}

#endif
