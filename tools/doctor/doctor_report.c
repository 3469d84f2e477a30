#include "tools/doctor/doctor_internal.h"

#include <stdarg.h>
#include <stdio.h>

static const char *doctor_report_level_name(enum finding_level level)
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

        json_put(finding, "level", json_string(doctor_report_level_name(level)));
        json_put(finding, "check", json_string(check));
        json_put(finding, "text", json_text_str(text));
        json_put(finding, "remedy", json_word(remedy ? remedy : ""));
        json_element(doctor->json, finding);
        return;
    }
    printf("%-4s  %-17s %s\n", doctor_report_level_name(level), check, text);
    if (remedy)
        printf("      %-17s > %s\n", "", remedy);
}
