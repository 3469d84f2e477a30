#include "tools/show/textfile.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/exit_code.h"
#include "tools/common/text.h"

#define SHOWN_SIZE (4 * PATH_MAX)

static bool textfile_ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);

    return length > tail && strcmp(text + length - tail, suffix) == 0;
}

int textfile_path(const char *path, const char *agent, char *ret_path, size_t size, char *why,
                  size_t why_size)
{
    const char *slash = *path && path[strlen(path) - 1] == '/' ? "" : "/";
    char shown[SHOWN_SIZE];
    struct stat st;
    int made;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        made = snprintf(ret_path, size, "%s%sholdfast-%s" TEXTFILE_SUFFIX, path, slash, agent);
    else
        made = snprintf(ret_path, size, "%s", path);
    if (made > 0 && (size_t)made < size && textfile_ends_with(ret_path, TEXTFILE_SUFFIX))
        return EXIT_OK;
    snprintf(why, why_size,
             "give a directory that exists, or a file whose name ends with " TEXTFILE_SUFFIX
             ": '%s' is neither, and node_exporter reads no other names",
             text_escape_str(shown, sizeof(shown), path));
    return EXIT_USAGE;
}

/* Says what failed by errno. */
static int textfile_failed(const char *what, const char *path, char *why, size_t why_size)
{
    int error = errno;
    bool denied = error == EACCES || error == EPERM || error == EROFS;
    char shown[SHOWN_SIZE];

    snprintf(why, why_size, "%s: cannot %s %s: %s",
             denied            ? "run it as a user who may write there"
             : error == ENOENT ? "make the directory"
             : error == ENOSPC ? "make room on that file system"
                               : "give another path",
             what, text_escape_str(shown, sizeof(shown), path), strerror(error));
    return denied ? EXIT_DENIED : EXIT_FAILED;
}

static bool textfile_write_all(int fd, const char *text, size_t length)
{
    while (length) {
        ssize_t done = write(fd, text, length);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        text += done;
        length -= (size_t)done;
    }
    return true;
}

int textfile_write(const char *path, const char *text, size_t length, char *why, size_t why_size)
{
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    char beside[PATH_MAX];
    int fd, code;

    /* Hidden, and without the suffix: the collector does not read it. */
    if (snprintf(beside, sizeof(beside), "%.*s.%s.XXXXXX", dir, path, path + dir) >=
        (int)sizeof(beside)) {
        errno = ENAMETOOLONG;
        return textfile_failed("write", path, why, why_size);
    }
    fd = mkstemp(beside);
    if (fd < 0)
        return textfile_failed("write", path, why, why_size);
    code = EXIT_OK;
    if (!textfile_write_all(fd, text, length) || fchmod(fd, 0644) < 0)
        code = textfile_failed("write", path, why, why_size);
    if (close(fd) < 0 && code == EXIT_OK)
        code = textfile_failed("write", path, why, why_size);
    if (code == EXIT_OK && rename(beside, path) < 0)
        code = textfile_failed("replace", path, why, why_size);
    if (code != EXIT_OK)
        (void)unlink(beside);
    return code;
}
