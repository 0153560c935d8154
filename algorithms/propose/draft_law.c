/* A draft's own settings, or the request's. */
#include "algorithms/propose/draft_law.h"

#include <math.h>

struct cop_sampling cop_draft_law_sampling(const struct cop_draft_law *law,
                                           const struct cop_sampling *request)
{
    struct cop_sampling sampling = *request;
    if (!(sampling.temperature > 0)) {
        sampling.temperature = 1;
    }
    if (!isnan(law->temperature)) {
        sampling.temperature = law->temperature;
    }
    if (law->top_k != INT32_MIN) {
        sampling.top_k = law->top_k;
    }
    if (!isnan(law->top_p)) {
        sampling.top_p = law->top_p;
    }
    if (!isnan(law->min_p)) {
        sampling.min_p = law->min_p;
    }
    return sampling;
}
