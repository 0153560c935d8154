/* The exponentials of ops.h over N lanes at once, written so that every lane does the same
 * sequence of rounded operations whatever N is: scalar and vector code give the same bits.
 *
 * Include with COP_EXP_LANES_F64 and COP_EXP_LANES_F32 defined (powers of two): it defines
 * static functions cop_lanes_exp       double, on vectors of type cop_lanes_f64 cop_lanes_expf
 * float,  on vectors of type cop_lanes_f32 cop_lanes_expf_low  the same for arguments that are
 * known to be at most 88 No fused multiply-add (the build forbids contraction), no libm, no
 * branches: selections by masks.
 *
 * Both reduce x = k ln2 + r with |r| <= ln2 / 2. The multiple k comes from adding 1.5 * 2^52
 * (2^23), which rounds to an integer and leaves it in the low bits; ln2 is split so that k *
 * ln2_high is exact. e^r is its Taylor sum: the first term left out is below 4e-18 (double,
 * r^14/14!) and 6e-9 (float, r^8/8!). The last step adds 1 to a sum that is rounded at a third
 * of its unit. 2^k is made from exponent bits, and the product with it is exact while the
 * result is normal; for the first k that is too large those bits are infinity, hence the cap
 * just behind it. NaN goes through all of it unharmed. */
#ifndef COP_EXP_LANES_H
#define COP_EXP_LANES_H

#include <stdint.h>

#if !defined(COP_EXP_LANES_F64) || !defined(COP_EXP_LANES_F32)
#error "define the numbers of lanes before including this"
#endif

typedef double cop_lanes_f64 __attribute__((vector_size(8 * COP_EXP_LANES_F64)));
typedef int64_t cop_lanes_i64 __attribute__((vector_size(8 * COP_EXP_LANES_F64)));
typedef uint64_t cop_lanes_u64 __attribute__((vector_size(8 * COP_EXP_LANES_F64)));
typedef float cop_lanes_f32 __attribute__((vector_size(4 * COP_EXP_LANES_F32)));
typedef int32_t cop_lanes_i32 __attribute__((vector_size(4 * COP_EXP_LANES_F32)));
typedef uint32_t cop_lanes_u32 __attribute__((vector_size(4 * COP_EXP_LANES_F32)));

#define COP_LANES_INLINE static inline __attribute__((always_inline))

/* limit where x > limit, else x (NaN too) */
COP_LANES_INLINE cop_lanes_f64 cop_lanes_cap_f64(cop_lanes_f64 x, double limit)
{
    cop_lanes_i64 above = (cop_lanes_i64)(x > limit);
    cop_lanes_f64 limits = limit - (cop_lanes_f64){0.0};
    return (cop_lanes_f64)((above & (cop_lanes_i64)limits) | (~above & (cop_lanes_i64)x));
}

COP_LANES_INLINE cop_lanes_f32 cop_lanes_cap_f32(cop_lanes_f32 x, float limit)
{
    cop_lanes_i32 above = (cop_lanes_i32)(x > limit);
    cop_lanes_f32 limits = limit - (cop_lanes_f32){0.0f};
    return (cop_lanes_f32)((above & (cop_lanes_i32)limits) | (~above & (cop_lanes_i32)x));
}

COP_LANES_INLINE cop_lanes_f64 cop_lanes_exp(cop_lanes_f64 x)
{
    const cop_lanes_f64 zero = {0.0};
    const cop_lanes_f64 magic = zero + 0x1.8p52;
    x = cop_lanes_cap_f64(x, 710.0);
    cop_lanes_f64 shifted = x * 0x1.71547652b82fep0 + magic; /* 1 / ln2 */
    cop_lanes_f64 k = shifted - magic;
    cop_lanes_f64 r = x - k * 0x1.62e42fee00000p-1; /* ln2, 33 bits, and the rest */
    r = r - k * 0x1.a39ef35793c76p-33;
    /* The sum of r^i / (i + 2)! for i < 12, in pairs, so that few operations wait for others.
     */
    cop_lanes_f64 r2 = r * r, r4 = r2 * r2;
    cop_lanes_f64 low = (0.5 + r * (1.0 / 6.0)) + r2 * (1.0 / 24.0 + r * (1.0 / 120.0));
    cop_lanes_f64 middle =
        (1.0 / 720.0 + r * (1.0 / 5040.0)) + r2 * (1.0 / 40320.0 + r * (1.0 / 362880.0));
    cop_lanes_f64 high = (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) +
                         r2 * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0));
    cop_lanes_f64 s = low + r4 * (middle + r4 * high);
    s = 1.0 + (r + r2 * s);
    cop_lanes_u64 power = ((cop_lanes_u64)shifted << 52) + ((uint64_t)1023 << 52);
    cop_lanes_f64 y = s * (cop_lanes_f64)power;
    return (cop_lanes_f64)(~(cop_lanes_i64)(x < -708.0) & (cop_lanes_i64)y);
}

COP_LANES_INLINE cop_lanes_f32 cop_lanes_expf_low(cop_lanes_f32 x)
{
    const cop_lanes_f32 zero = {0.0f};
    const cop_lanes_f32 magic = zero + 0x1.8p23f;
    cop_lanes_f32 shifted = x * 0x1.715476p0f + magic;
    cop_lanes_f32 k = shifted - magic;
    cop_lanes_f32 r = x - k * 0x1.62e400p-1f; /* ln2, 15 bits, and the rest */
    r = r - k * 0x1.7f7d1cp-20f;
    cop_lanes_f32 r2 = r * r; /* the sum of r^i / (i + 2)! for i < 6 */
    cop_lanes_f32 low = (0.5f + r * (1.0f / 6.0f)) + r2 * (1.0f / 24.0f + r * (1.0f / 120.0f));
    cop_lanes_f32 s = low + r2 * r2 * (1.0f / 720.0f + r * (1.0f / 5040.0f));
    s = 1.0f + (r + r2 * s);
    cop_lanes_u32 power = ((cop_lanes_u32)shifted << 23) + (127u << 23);
    cop_lanes_f32 y = s * (cop_lanes_f32)power;
    return (cop_lanes_f32)(~(cop_lanes_i32)(x < -87.0f) & (cop_lanes_i32)y);
}

COP_LANES_INLINE cop_lanes_f32 cop_lanes_expf(cop_lanes_f32 x)
{
    return cop_lanes_expf_low(cop_lanes_cap_f32(x, 89.0f));
}

#endif
