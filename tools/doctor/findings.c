#include "tools/doctor/findings.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/common/process.h"

static const char *level_name(enum finding_level level)
{
    static const char *const names[] = {"ok", "note", "warn", "fail"};

    return names[level];
}

void doctor_report(struct doctor *doctor, enum finding_level level, const char *check,
                   const char *remedy, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    doctor->warnings += level == FINDING_WARN;
    doctor->failures += level == FINDING_FAIL;
    if (doctor->json) {
        json_t *finding = json_object();

        json_put(finding, "level", json_string(level_name(level)));
        json_put(finding, "check", json_string(check));
        json_put(finding, "text", json_text_str(text));
        json_put(finding, "remedy", json_word(remedy ? remedy : ""));
        json_element(doctor->json, finding);
        return;
    }
    printf("%-4s  %-17s %s\n", level_name(level), check, text);
    if (remedy)
        printf("      %-17s > %s\n", "", remedy);
}

void doctor_tell_limits(struct doctor *doctor)
{
    doctor_report(
        doctor, FINDING_NOTE, "limits.pause", NULL,
        "a pause or snapshot of the whole machine that its clocks do not show is not looked "
        "for; compare fences in the resource");
    doctor_report(doctor, FINDING_NOTE, "limits.rates", NULL,
                  "clocks whose rates differ by more than 1 %%, and other software that deletes or "
                  "sets the keys, are outside of what the locks promise (docs/SAFETY.md)");
}

pid_t doctor_locked_by(const struct place *place)
{
    char path[sizeof(place->dir) + 8], text[32] = "";
    struct process process;
    ssize_t got;
    long pid;
    int fd;

    snprintf(path, sizeof(path), "%s/lock", place->dir);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    pid = got > 0 ? strtol(text, NULL, 10) : 0;
    if (pid <= 0 || process_read((pid_t)pid, &process) < 0 || process.state == 'Z')
        return 0;
    return (pid_t)pid;
}
