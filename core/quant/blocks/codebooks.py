"""IQ formats of ggml whose codes name vectors of 4 or 8 values in a codebook.

A codebook is a set of vectors whose elements are of a few numbers. Taken as digits, the first the
lowest, the elements of a vector make a number, and codes name the vectors of a codebook in the
order of these. A codebook is stored as a bitmap over all such numbers, lowest bit first, base 85.
Source: the tables iq1s_grid, iq2xxs_grid, iq2xs_grid, iq2s_grid, iq3xxs_grid and iq3s_grid of
ggml-common.h, which define these formats.
"""

from __future__ import annotations

import base64
from functools import cache

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.blocks.codec import Codec, bits_of, nibble_pairs, non_finite_halves, planes

I8 = NDArray[np.int8]

_TERNARY = (-1, 0, 1)
_OF_IQ2 = (8, 25, 43)
_ELEMENTS = {  # in ascending order: the digits 0, 1 and so on
    "iq1_s": _TERNARY,
    "iq2_xxs": _OF_IQ2,
    "iq2_xs": _OF_IQ2,
    "iq2_s": _OF_IQ2,
    "iq3_xxs": (4, 12, 20, 28, 36, 44, 52, 62),
    "iq3_s": (1, 3, 5, 7, 9, 11, 13, 15),
}


@cache
def codebook(name: str) -> I8:
    """int8 [codes, 8 or 4], by the name of the format; iq1_m has that of iq1_s."""
    numbers = np.array(_ELEMENTS[name], np.int8)
    length = 8 if len(numbers) == 3 else 4
    bitmap = np.frombuffer(base64.b85decode(_BITMAPS[name]), np.uint8)
    members = np.flatnonzero(np.unpackbits(bitmap, bitorder="little"))
    digits = members[:, None] // len(numbers) ** np.arange(length) % len(numbers)
    return numbers[digits]


@cache
def sign_vectors(bits: int) -> I8:
    """int8 [2 ** bits, 8] of 1 and -1: bit i is set where element i is negative. Of 7 bits the
    eighth follows, so that the number of negative elements is even."""
    signs = np.unpackbits(
        np.arange(1 << bits, dtype=np.uint8)[:, None], axis=1, bitorder="little"
    ).astype(np.int8)
    if bits == 7:
        signs[:, 7] = signs.sum(axis=1) % 2
    return 1 - 2 * signs


def look_up(table: I8, codes: NDArray[np.integer]) -> I8:
    """Look up rows of a table of 4 or 8 columns: codes [...] -> int8 [..., columns]."""
    words = table.view(f"i{table.shape[1]}")[:, 0]
    return np.take(words, codes)[..., None].view(np.int8)


def _signs_of_words(words: NDArray[np.uint32]) -> NDArray[np.int8]:
    """[n, 8] -> 1 or -1 [n, 8, 4, 8]"""
    codes = words[..., None] >> np.arange(0, 28, 7, dtype=np.uint32) & np.uint32(127)
    return look_up(sign_vectors(7), codes)


def _scales_of_words(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """[n, 8] -> 0.5 to 15.5 [n, 8]"""
    return (words >> np.uint32(28)).astype(np.float32) + np.float32(0.5)


_EIGHTH = np.float32(0.125)  # values of IQ1_S and IQ1_M are sums of it, in int8


class IQ1_S(Codec):
    """256 values as ternary vectors of 8 out of 2048, a scale each 32 (1.5625 bits).

    50 bytes: d (binary16), codes (32 bytes, the lower bits of a vector each), qh (8 words of 16
    bits, for 32 values each: the upper bits of code p in bits 3 p to 3 p + 2, the scale in bits 12
    to 14, and in bit 15 whether the shift is negative).
    value = d * (2 * scale + 1) * (element + shift), shift = 1/8 or -1/8.
    Source: block_iq1_s of ggml-common.h, dequantize_row_iq1_s of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype([("d", "<f2"), ("codes", "u1", (32,)), ("qh", "<u2", (8,))])
    assert BLOCK.itemsize == 50
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        words = blocks["qh"]
        upper = words[..., None] >> np.arange(0, 12, 3, dtype=np.uint16) & np.uint16(7)
        codes = blocks["codes"] | upper.reshape(-1, 32) << np.uint16(8)
        levels = look_up(codebook("iq1_s") * np.int8(8), codes).reshape(-1, 8, 32)
        levels += np.where(words >> np.uint16(15), np.int8(-1), np.int8(1))[..., None]
        values = levels.astype(np.float32)
        scales = (words >> np.uint16(12) & np.uint16(7)) * np.float32(2) + np.float32(1)
        scales *= _EIGHTH * blocks["d"].astype(np.float32)[:, None]
        values *= scales[..., None]
        return values.reshape(shape)


class IQ1_M(Codec):
    """256 values as ternary vectors of 8 out of 2048, a scale each 16 (1.75 bits).

    56 bytes: codes (32 bytes, the lower bits of a vector each), qh (16 bytes, a nibble a code: its
    upper bits in the lower three, and in the highest whether its shift is negative), scales (4
    words of 16 bits: the scale of 16 values in three bits each, and in the highest four a nibble of
    d, the lowest first). value = d * (2 * scale + 1) * (element + shift), shift = 1/8 or -1/8, d a
    binary16.
    Source: block_iq1_m of ggml-common.h, dequantize_row_iq1_m of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype([("codes", "u1", (32,)), ("qh", "u1", (16,)), ("scales", "<u2", (4,))])
    assert BLOCK.itemsize == 56

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        upper = nibble_pairs(blocks["qh"])
        codes = blocks["codes"] | (upper & np.uint8(7)).astype(np.uint16) << np.uint16(8)
        levels = look_up(codebook("iq1_s") * np.int8(8), codes)
        levels += np.where(upper & np.uint8(8), np.int8(-1), np.int8(1))[..., None]
        values = levels.reshape(-1, 16, 16).astype(np.float32)
        words = blocks["scales"]
        scales = words[..., None] >> np.arange(0, 12, 3, dtype=np.uint16) & np.uint16(7)
        steps = scales.reshape(-1, 16) * np.float32(2) + np.float32(1)
        steps *= _EIGHTH * cls._halves(words).view(np.float16).astype(np.float32)[:, None]
        values *= steps[..., None]
        return values.reshape(shape)

    @classmethod
    def _halves(cls, words: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Return the bits of d, [n, 4] -> [n]."""
        nibbles = words >> np.uint16(12) << np.arange(0, 16, 4, dtype=np.uint16)
        return np.bitwise_or.reduce(nibbles, axis=1)

    @classmethod
    def non_finite(cls, data: NDArray[np.uint8]) -> bool:
        return non_finite_halves(cls._halves(data.view(cls.BLOCK)["scales"]))


class IQ2_XXS(Codec):
    """256 values as vectors of 8 out of 256, each 32 with a scale (2.0625 bits).

    66 bytes: d (binary16), then for each 32 values: codes (4 bytes, a vector each) and a word of
    their signs and scale, see `_signs_of_words`. value = d * (scale + 0.5) / 4 * sign * element.
    Source: block_iq2_xxs of ggml-common.h, dequantize_row_iq2_xxs of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    _PART = np.dtype([("codes", "u1", (4,)), ("signs", "<u4")])
    BLOCK = np.dtype([("d", "<f2"), ("parts", _PART, (8,))])
    assert BLOCK.itemsize == 66
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        words = blocks["parts"]["signs"]
        levels = look_up(codebook("iq2_xxs"), blocks["parts"]["codes"])
        levels *= _signs_of_words(words)
        values = levels.reshape(-1, 8, 32).astype(np.float32)
        steps = _scales_of_words(words) * blocks["d"].astype(np.float32)[:, None]
        steps *= np.float32(0.25)
        values *= steps[..., None]
        return values.reshape(shape)


class IQ2_XS(Codec):
    """256 values as vectors of 8 out of 512, each 16 with a 4-bit scale (2.3125 bits).

    74 bytes: d (binary16), codes (32 words of 16 bits: a vector in the lower nine, its signs in the
    upper seven), scales (8 bytes: of 16 values in the low nibble, of the next 16 in the high one).
    value = d * (scale + 0.5) / 4 * sign * element.
    Source: block_iq2_xs of ggml-common.h, dequantize_row_iq2_xs of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype([("d", "<f2"), ("codes", "<u2", (32,)), ("scales", "u1", (8,))])
    assert BLOCK.itemsize == 74
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        levels = look_up(codebook("iq2_xs"), blocks["codes"] & np.uint16(511))
        levels *= look_up(sign_vectors(7), blocks["codes"] >> np.uint16(9))
        values = levels.reshape(-1, 16, 16).astype(np.float32)
        steps = nibble_pairs(blocks["scales"]) + np.float32(0.5)
        steps *= np.float32(0.25) * blocks["d"].astype(np.float32)[:, None]
        values *= steps[..., None]
        return values.reshape(shape)


class IQ2_S(Codec):
    """256 values as vectors of 8 out of 1024, each 16 with a 4-bit scale (2.5625 bits).

    82 bytes: d (binary16), codes (32 bytes, the lower bits of a vector each), signs (32 bytes, a
    bit a value, set where it is negative), qh (8 bytes: the upper bits of code 4 j + p are bits 2
    p, 2 p + 1 of byte j), scales (8 bytes: of 16 values in the low nibble, of the next 16 in the
    high one). value = d * (scale + 0.5) / 4 * sign * element.
    Source: block_iq2_s of ggml-common.h, dequantize_row_iq2_s of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [
            ("d", "<f2"),
            ("codes", "u1", (32,)),
            ("signs", "u1", (32,)),
            ("qh", "u1", (8,)),
            ("scales", "u1", (8,)),
        ]
    )
    assert BLOCK.itemsize == 82
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        upper = planes(blocks["qh"][..., None], 2).reshape(-1, 32)
        codes = blocks["codes"] | upper.astype(np.uint16) << np.uint16(8)
        levels = look_up(codebook("iq2_s"), codes)
        levels *= look_up(sign_vectors(8), blocks["signs"])
        values = levels.reshape(-1, 16, 16).astype(np.float32)
        steps = nibble_pairs(blocks["scales"]) + np.float32(0.5)
        steps *= np.float32(0.25) * blocks["d"].astype(np.float32)[:, None]
        values *= steps[..., None]
        return values.reshape(shape)


class IQ3_XXS(Codec):
    """256 values as vectors of 4 out of 256, each 32 with a scale (3.0625 bits).

    98 bytes: d (binary16), codes (64 bytes, a vector each), signs (8 words of 32 bits, for 32
    values each their signs and scale, see `_signs_of_words`).
    value = d * (scale + 0.5) / 2 * sign * element.
    Source: block_iq3_xxs of ggml-common.h, dequantize_row_iq3_xxs of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype([("d", "<f2"), ("codes", "u1", (64,)), ("signs", "<u4", (8,))])
    assert BLOCK.itemsize == 98
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        words = blocks["signs"]
        levels = look_up(codebook("iq3_xxs"), blocks["codes"]).reshape(-1, 8, 32)
        levels *= _signs_of_words(words).reshape(levels.shape)
        values = levels.astype(np.float32)
        steps = _scales_of_words(words) * blocks["d"].astype(np.float32)[:, None]
        steps *= np.float32(0.5)
        values *= steps[..., None]
        return values.reshape(shape)


class IQ3_S(Codec):
    """256 values as vectors of 4 out of 512, each 32 with a 4-bit scale (3.4375 bits).

    110 bytes: d (binary16), codes (64 bytes, the lower bits of a vector each), qh (8 bytes: bit 8
    of code 8 j + p is bit p of byte j), signs (32 bytes, a bit a value, set where it is negative),
    scales (4 bytes: of 32 values in the low nibble, of the next 32 in the high one).
    value = d * (2 * scale + 1) * sign * element; of its elements 1, 3, .. 15.
    Source: block_iq3_s of ggml-common.h, dequantize_row_iq3_s of ggml-quants.c.
    """

    BLOCK_SIZE = 256
    BLOCK = np.dtype(
        [
            ("d", "<f2"),
            ("codes", "u1", (64,)),
            ("qh", "u1", (8,)),
            ("signs", "u1", (32,)),
            ("scales", "u1", (4,)),
        ]
    )
    assert BLOCK.itemsize == 110
    HALVES = 0

    @classmethod
    @np.errstate(invalid="ignore")  # infinity times 0
    def dequantize(cls, data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
        blocks = data.view(cls.BLOCK)
        codes = blocks["codes"] | bits_of(blocks["qh"]).astype(np.uint16) << np.uint16(8)
        levels = look_up(codebook("iq3_s"), codes).reshape(-1, 8, 32)
        levels *= look_up(sign_vectors(8), blocks["signs"]).reshape(levels.shape)
        values = levels.astype(np.float32)
        steps = nibble_pairs(blocks["scales"]) * np.float32(2) + np.float32(1)
        steps *= blocks["d"].astype(np.float32)[:, None]
        values *= steps[..., None]
        return values.reshape(shape)


_BITMAPS = {
    "iq1_s": (
        "RV5UKpaMcs2t_fdh9HWf8VD*N6opU}f*?diB^3pr0)ilj7yt-@paUwPh`Xu^kg5v+A^-}ijDnyDKv4)qA&7ub6hcu5"
        "iZBS6pa_5}2t^?jg&;^mRR~1^EW)55iY5RmB&e#Q2;#2@2q-83paMcDswg0+fFKH+2)VkbAj+<ZqOPhseCz7EyMhk5"
        "BD%`c4w3>Q03sl$in<Dd0tf&qO5mb9A|NZG0D(Y(s){HGA^{YIP!)n82}L1Pg`fxmBd9tcgn}ScLQx2!APALE6ap#;"
        "xTu1FphyBB2!f($q5>$ZDhP!j2!b#OML+;WAryt6076j!MFA;-0E&Vt2%#_(1yB@%C<sL%6onuH0wAg?03Z^vimoWA"
        "x}mD5Z~%e|2m&Y~0)zm907!tK>aZ%R!XS&fBI??wi;HfklCUbOa*K*Y3@RW<gg_{YDhR3|$jqW5qOY2u=%@k!0stzg"
        "hyWmfpo^lSD7v74f-(xazPP&n>!P45q6mr#DC(jBp)vvt`lRaK?<=S-jlO>C`uBgo=6$-}Y5OPtzb5(;>EVhZ5URco"
        "gsKR#s0)Iw|GFgUgMb8LENJqm3ZyFl0xAdy;;Iq=0)i?ErXb0JiI9RQ0HOelfD-_M2nYadimIx+0;ax-pvnS(YnLw2"
        "vgr_l5H70TC>7DA1ON(x0E&Vj2mzrWf~q;XA~J-a34j;?ilSlyffPhh07W6Jf>0DfQ3$FaD5{4F5-JEqAru9m2trW^"
        "MFAiJpg^J`0Ehqxq6lh=Zn&zdfB+y0g5t;`AqYfJ6hcu6iXat*P!xs=2&yV7fB*_YQ3ypLr~ptDLQx3fAc%qr7=kJY"
        "s-miju!{l;DykqTf`F<DC<rJ3sfYq1puP(zxCn~6OR}#2x}^B7svuG*Xttm*=70(UC<r2IVt^nD0;;Mjs_LStprQx}"
        "5Fnt6A^?I807W4bg`f&RQ3ypLsRjT_ssae501ypC6oM!SMIjUg00@GDtnwfL0062AC<?kD>Y@Swf=CG{=@bAFOGQxt"
        "MFFS+P!vK@2#6#Ih$sp`2mnO^6a}CHKv4)q0R"
    ),
    "iq2_xxs": (
        "RTUIf5JW*i00b0701yBG00ck)6aYW~00004002-BKtT}z0Tcv4Py|2#5C8xL5C8yB0003106+i$K@<c)6chje1ONa8"
        "000C40000000a;K000000000K1P~AaKmY_000aRL06;(h0RR91000350000001yN~1V8`)1ONa401yBG01yBG06+i`"
        "00000000001pxpA002M$000pH000000000100000KmY&$000yO000310R;d60000G5C8xG002+`0000000000KtTWi"
        "0YCr%002M$000C4KmY&$0000000000KmY(h00aO400004000000000000000000010000008kJ_K@boD6a)Ye06+i$"
        "00cw;06;(h06;(h0RR9%5C8!H000mG5C8xK5C8xG000000RR9100000000yO01yEH000001ONa401yEL00000000C4"
        "000C45JXS_000040RR92000C4000000RR9100000KmY&$00000002M%000310000000004000000RR9100a;O00004"
        "00000002M$00000000C40000000000K>z>&0003106+i$002M$0000006+i$01yBG000pH000000000002BZK00004"
        "000000000000000000000RR910000000000000000000000000002Ni000C406+i$00ck)1ONa4000001ONa400000"
        "02D+35CA{`00004000040000G000C4KmY&%0000$00000000000003100000000000096100000000C55Ci}K00001"
        "06+i$002M$0000000031000001OPw)0RR910000000001000000000000000000000000001yBG000010000000000"
        "000000000000aO401yBG1ONa40RR910000000aO4000000000000aO400000000000000000000000000000000000"
        "000C4000001ONa40000000000000000000000"
    ),
    "iq2_xs": (
        "RaI3{RYgG+MFCV*RZvAi5Cs7MR8bH>K?DE+0RT`{ML`u60TcuPP(?ui1px#E002Ni01yQL06+i$Kve}16a)bf06;(m"
        "0RRL506-7`009650RR9101yFGRZ&nyK|loo08~*BKtTWi0Z;%?5dc5{0096108m9i07U^11ONa)K>z>&0000006+i)"
        "00031000001qA>EKmY&)000pH000001ONa400000KmY&$003205I{iy00965P!Iq>5C9MW000mG0096100aO4L_q*R"
        "0RR91002M$000CK0000G0096200000000m{0R#X50RRvH1ONa40000G009610T2KH002Y*08mv$K~)726a)ZJML_@s"
        "0RTh*KtMqOKmh;%0000$6-5CQ1ON~K0RRO75Ci}K002M$0RaF&5C8xG000yO01yEI0RR911P}lKK>$Di002M$00000"
        "00000P(?uy1pxpA002Ni1ONp900000KmY&$5C8xG002M*0R#j95I_I`0YLx&0000$5C8xG01yBG01yBG1Oz|;KtKQh"
        "0003101!X{000000000000000KmY(hK>z>&5D)+X08jt`0000000000000mG1ONa40RRC&000000000000aOK0RR91"
        "01yBG00000000005C8xG000010000000aO40000000aO401yxW002N01pyTV08jt`P!$0H1P}xO0000100aO406+l%"
        "K@?N~5CA{`KmY&)0000100000KmY&)000000RR9H1ONm8009&L00aa80000000000000C4000mK1P}!Q00aO500961"
        "0RRvH00031000000000406+i$L;wH)K@b1{0000001yBG000yK000000RR910000000004000001ONa40096100000"
        "5C8xG5C8xG07U@=1ONa4000310000$5C8xGKokK05C8xG0RRL5002M$0000$0000000000000000000006+i$1OPw)"
        "MF0Q*002M`1ONa4000050000000jU5000310R"
    ),
    "iq2_s": (
        "RaI3{RYg@51rb$MQBXxy6a^I&R8bI6RRjPL5fD&SMO9T*6;wr0P*qhFRaF#JQ4l~?1OQPK1W*tFKowOHRaH?C0Rcb-"
        "RRly)5I{fx009&b1rPuL06+j#RZ&qzRTULc6jW7JMO76ARTKbF6hT1*1ppKT08m9$6jfCeR8bH>RTTwQ6a-KZ06-K4"
        "0TcuP5C8x`RZ#>~Q4l}@0031K1W*tF5C8xK5Ci}a00aO4002}`6;VM21OX8MR8T=c1qA^V1ON~a08s=1000F5L{$_8"
        "RTKnJ5CA|F1pyQU01*HH00jX61ONm80000H6aY{V002M$02KrP0000001yBG1V8`)00ck*08mv`MO9T56hu)_MO6h="
        "RTNZF5I{i{1W^<OPyhfxRaI3~RZ&nyK>$@%6jV_VP(c6yRTKnJ5CA{`01y;aQBXxe00aR5R8bH>K>z>&Kmbq>06+i$"
        "00000P(@W0RaF#JQ2;<y6$Mok1W*tFKokW56a)Yi00010RTNZF5I{iy096zOP!Iq>0000K1OO2L0000008~*BKtVtN"
        "0RR9{5CA{`0000001yBW00000KmY(lMHK~66a+vJ06-N50TcuP5C9MW1OWg90096100B`H1W*tFKmY&$6a)Ye5C9MW"
        "1ONm800000000mGP!IqB000mG009sH06+i$00000000001ONa406;($MG+KK5fDKE07X?4R8asxK>$Dz6#!5W00000"
        "08~{GP(?ui1pxq5Q4l~u0003208kJBPyhe`0000GK>+{-0RR91KtKTi0096%00000000C400lq*00Bi+5L8hRKtTWi"
        "5flJW5D)+W000yO01yBG0000$R8bH>K>z>&Kmbq>06+i$0000H5C8xG5C9MW002Ni01yEH00000Pyhe`01*HH00000"
        "00000002M$01*)oR1g3F000C5000mG00aO401yN~6aWAKL;(O%5CA{`00001Ko9^B0000000000000001ONa4002M$"
        "KmY&$0000100000KmY&)002M%6afGL01yBG0R"
    ),
    "iq3_xxs": (
        "6^aD{1ONai3I!qs0uTTJ6#@l{0D=G@f(0M|0000100;np5P$$Ef&c&n00aO40000W000mG08sz{2mk^A3Iz%kfB^si"
        "1p);C000003IzfI000041pom8Kmb4hA^-pY00961000pHKmY&&AOHXW00000000C40RR911qww11ONa4Dg^=o004*q"
        "1%d^D0U!VX0ucZJ0000H0000W00;m82mpWp0ssII00000000003P1n=AOHXW0tE^H00AHb1pom8Pyhe`3IQMh00aO8"
        "00ICA0000000001fB*mlK>!2*03ZMW01yB`000O800008000315P$%n0Ehqp000000000G0004i0RTY&fB*mhAOHXW"
        "5C8xG00IyI001BW2mk;90000000000AO!#c0000000aO40ssI3K>$Di03ZMW01yBK000041ONa400;m800D>q00004"
        "1ONa6000000000000961000mG1ONa4000mGPyi4B00062000620Du4h000mG0000%00000000005C8xGAOHXW00aO4"
        "00008000002mk^A00000r~v>300aO4002M$0RR9100aO4AOrva0U!Vf00031000620ssI21pp8L000000000100000"
        "0000000000"
    ),
    "iq3_s": (
        "r&l8gr3wX-7bA%x5C9?sqe&tWqzV8D2qFba5CwoD0f-U=2?78C6aYmCq5wb$Knef?00aO66#zvD01*HH7pnzQ08j!1"
        "OA!JI0tEm;0i+QG2_OLkk_mzl0ssU7C=>t+L=gZ00to^I00IC2005ByPyhe`3Izfn0ssU7t5u2xDg}Tk1&JgQ1Ofm6"
        "k^l;U0*C+-B?1%*1OY$*f&d950ssIc5CQ~%0SEvAg#ZEo03ZSYAOb)E2mt^91gZoolmZ9>Di8_)0RRC+0R#aQ00961"
        "0uhP<iXZ?82tot`00a>L0tFxh5I_J306+i$0ssI23IGKl000005d@J00s#O4gbD;92qFLg3Lydr0e}Pn5DEn%00000"
        "1pp9$0RR93pa22@000C400;mO0003103iSY2m$~A1Q7%Pkpw^xDg*)q000040Rjj?00;m8gaLp65CR|w5&!`NKmY&$"
        "00ck)015yA000001ONa46aWMO0000004e|q000310RVvj000mG00aOK1Rw+f0T2QJ0RR91001BW2mk~C2><{P00031"
        "AOHXW0RR91015yA00000kpKli0T2WL1OgBMC;$Ke5<vn100IC21ONae00;m8A_xHh00961000C41ONa41ONa600000"
        "0RR9100000"
    ),
}
