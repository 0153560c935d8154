#include "core/base/error.h"
#include <criterion/criterion.h>

Test(error, keeps_code_and_text)
{
    struct cop_error err;
    cr_assert_eq(cop_fail(&err, COP_ERR_IO, "no file \"%s\"", "x"), COP_ERR_IO);
    cr_assert_eq(err.code, COP_ERR_IO);
    cr_assert_str_eq(err.text, "no file \"x\"");
}
