/* A node's address as configured: taken whole or refused in words, and never with the password in
 * what is shown. */
#include "tests/fuzz/fuzz.h"

#include "agent/base/address.h"
#include "shm/status.h"

#define FITS(field) FUZZ_CHECK(memchr(field, '\0', sizeof(field)))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct node_address address, again;
    char why[256] = "", *text = fuzz_string(&in, size);
    int rc = node_address_parse(text, &address, why, sizeof(why));

    if (rc == HF_OK) {
        FITS(address.id);
        FITS(address.text);
        FITS(address.host);
        FITS(address.user);
        FITS(address.password);
        FUZZ_CHECK(address.id[0] && address.text[0] && address.host[0] && address.db >= 0);
        fuzz_check_sentence(address.text, sizeof(address.text));
        fuzz_check_sentence(address.id, sizeof(address.id));
        FUZZ_CHECK(address.unix_socket || address.port != 0);
        FUZZ_CHECK(!(address.unix_socket && address.numeric));
        FITS(address.as);
        fuzz_check_sentence(address.as, sizeof(address.as));
        if (address.as[0]) {
            FUZZ_CHECK(node_address_from_seat(address.as, &address, &again));
            FUZZ_CHECK(strcmp(again.text, address.as) == 0 && again.host[0] && !again.as[0]);
            FUZZ_CHECK(again.unix_socket || (again.numeric && again.port != 0));
        }
        /* What is shown says the same place. */
        if (!address.user[0] && !address.password[0] && !strchr(address.text, '=')) {
            FUZZ_CHECK(node_address_parse(address.text, &again, why, sizeof(why)) == HF_OK);
            FUZZ_CHECK(strcmp(again.host, address.host) == 0 && again.port == address.port);
        }
    } else {
        FUZZ_CHECK(rc == HF_EINVAL && why[0] != '\0');
        FUZZ_CHECK(strnlen(why, sizeof(why)) < sizeof(why));
    }
    free(text);
    return 0;
}
