#include "shm/suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define WORD_MOST   31 /* bytes; longer words are like no setting */
#define BEGIN_LEAST 3  /* bytes of a beginning that tell a word */

static int suggest_letter(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

static size_t suggest_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row i has the distances of the first i letters of `word` from each beginning of `known`. */
size_t suggest_distance(const char *word, size_t word_len, const char *known)
{
    size_t rows[3][WORD_MOST + 1], known_len = strlen(known);

    if (word_len > WORD_MOST || known_len > WORD_MOST)
        return word_len + known_len;
    for (size_t i = 0; i <= word_len; i++) {
        size_t *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t k = 1; k <= known_len; k++) {
            if (i == 0) {
                row[k] = k;
                continue;
            }
            row[k] = suggest_least(
                suggest_least(row[k - 1], last[k]) + 1,
                last[k - 1] + (suggest_letter(word[i - 1]) != suggest_letter(known[k - 1])));
            if (i > 1 && k > 1 && suggest_letter(word[i - 1]) == suggest_letter(known[k - 2]) &&
                suggest_letter(word[i - 2]) == suggest_letter(known[k - 1]))
                row[k] = suggest_least(row[k], before[k - 2] + 1);
        }
    }
    return rows[word_len % 3][known_len];
}

static bool suggest_begins_with(const char *known, const char *word, size_t word_len)
{
    for (size_t i = 0; i < word_len; i++)
        if (suggest_letter(known[i]) != suggest_letter(word[i])) /* also at its end */
            return false;
    return true;
}

void suggest_try(struct suggestion *s, const char *word, size_t word_len, const char *known)
{
    size_t distance = suggest_distance(word, word_len, known), most = strlen(known) / 3;

    if (distance > (most ? most : 1) &&
        (word_len < BEGIN_LEAST || !suggest_begins_with(known, word, word_len)))
        return;
    if (s->known && distance >= s->distance)
        return;
    s->known = known;
    s->distance = distance;
}
