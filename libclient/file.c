/* Descriptors that the library keeps. A program may close descriptors that are not its own: a daemon closes all of them, often in
 * a forked child. Their numbers are then other files', which the library must not use and not close. */
#include "libclient/internal.h"

#include <sys/stat.h>
#include <unistd.h>

void hfc_file_keep(struct hfc_file *file, int fd)
{
    struct stat st = {0};

    (void)fstat(fd, &st);
    *file = (struct hfc_file){.fd = fd, .dev = st.st_dev, .inode = st.st_ino};
}

bool hfc_file_is_ours(const struct hfc_file *file)
{
    struct stat st;

    return file->fd >= 0 && fstat(file->fd, &st) == 0 && st.st_dev == file->dev &&
           st.st_ino == file->inode;
}

void hfc_file_close(struct hfc_file *file)
{
    if (hfc_file_is_ours(file))
        close(file->fd);
    file->fd = -1;
}
