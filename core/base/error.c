/* Filling the error record. */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>

enum cop_status cop_fail(struct cop_error *err, enum cop_status code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return code;
}

void cop_warn(struct cop_error *err, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = COP_OK;
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
}

const char *cop_status_name(enum cop_status code)
{
    switch (code) {
    case COP_OK: return "ok";
    case COP_ERR_IO: return "io";
    case COP_ERR_FORMAT: return "format";
    case COP_ERR_MEMORY: return "memory";
    case COP_ERR_LIMIT: return "limit";
    case COP_ERR_ARGUMENT: return "argument";
    case COP_ERR_UNSUPPORTED: return "unsupported";
    case COP_ERR_UNSOUND: return "unsound";
    case COP_ERR_NUMERIC: return "numeric";
    case COP_ERR_CALLBACK: return "callback";
    case COP_ERR_CANCELLED: return "cancelled";
    }
    return "unknown";
}
