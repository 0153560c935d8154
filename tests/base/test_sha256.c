/* SHA-256 against the published vectors of the standard, and lengths around a block's end. */
#include "core/base/sha256.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect_hash(const char *bytes, size_t length, const char *expected)
{
    struct cop_sha256 hash;
    char hex[COP_SHA256_HEX];
    cop_sha256_start(&hash);
    cop_sha256_add(&hash, bytes, length);
    cop_sha256_finish(&hash, hex);
    cr_expect_str_eq(hex, expected);
}

Test(sha256, published_vectors)
{
    expect_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

Test(sha256, a_million_letters_in_uneven_pieces)
{
    struct cop_sha256 hash;
    char hex[COP_SHA256_HEX], letters[997];
    memset(letters, 'a', sizeof letters);
    cop_sha256_start(&hash);
    for (size_t done = 0; done < 1000000;) {
        size_t n = 1 + done % sizeof letters;
        n = n < 1000000 - done ? n : 1000000 - done;
        cop_sha256_add(&hash, letters, n);
        done += n;
    }
    cop_sha256_finish(&hash, hex);
    cr_expect_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Lengths at which the padding does and does not need another block; values by coreutils. */
Test(sha256, lengths_around_the_padding)
{
    char zeros[128] = {0};
    expect_hash(zeros, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    expect_hash(zeros, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    expect_hash(zeros, 63, "c7723fa1e0127975e49e62e753db53924c1bd84b8ac1ac08df78d09270f3d971");
    expect_hash(zeros, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
    expect_hash(zeros, 119, "f616b0d54e78571a9611f343c9f8e022e859e920381ab0e4d3da01e193a7bd7e");
    expect_hash(zeros, 120, "6edd9f6f9cc92cded36e6c4a580933f9c9f1b90562b46903b806f21902a1a54f");
}

Test(sha256, a_file_has_the_hash_of_its_bytes)
{
    char path[] = P_tmpdir "/coppice-sha-XXXXXX", hex[COP_SHA256_HEX];
    struct cop_error err = {0};
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, "abc", 3), 3);
    (void)close(fd);
    cr_expect_eq(cop_sha256_file(path, hex, &err), COP_OK);
    cr_expect_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    (void)unlink(path);
    cr_expect_eq(cop_sha256_file(path, hex, &err), COP_ERR_IO);
    cr_expect(strstr(err.text, "coppice-sha") != NULL, "%s", err.text);
    cr_expect(strstr(err.text, "No such file") != NULL, "%s", err.text);
}
