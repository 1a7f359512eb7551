"""The labels and assumptions of accounts in other languages, by their English."""

from __future__ import annotations

from collections.abc import Mapping

TRANSLATIONS: Mapping[str, Mapping[str, str]] = {
    "ko": {
        "Rows of multipliers": "곱셈기 행",
        "Columns of multipliers": "곱셈기 열",
        "Clock": "클록",
        "Memory": "메모리",
        "Nothing overlaps: an op begins when the one before it has ended.": (
            "아무것도 겹치지 않습니다. 연산은 앞의 연산이 끝난 뒤에 시작합니다."
        ),
        "Long transfers reach {ddr_share:.0%} of the memory's {ddr_gb_s:g} GB/s, each after "
        "{dma_latency} cycles.": (
            "긴 전송은 저마다 {dma_latency}사이클 뒤에 시작하며 메모리 {ddr_gb_s:g} GB/s의 "
            "{ddr_share:.0%}에 이릅니다."
        ),
        "The array takes {load_rows} rows of weights in a cycle, beside its products.": (
            "배열은 곱셈을 하면서 한 사이클에 가중치 {load_rows}행을 받아들입니다."
        ),
        "The Arm cores make {arm_gmacs:g} billion multiply-adds a second and read {arm_gb_s:g} "
        "GB/s.": (
            "Arm 코어는 초당 {arm_gmacs:g} GMAC(곱하고 더하기)를 계산하고 {arm_gb_s:g} GB/s로 "
            "읽습니다."
        ),
        "Energy: {mac_pj:g} pJ a multiply-add, {ddr_pj:g} pJ a byte of memory, {static_watts:g} W "
        "all the time.": (
            "에너지: 곱하고 더하기 한 번에 {mac_pj:g} pJ, 메모리 1바이트에 {ddr_pj:g} pJ, 항상 "
            "{static_watts:g} W."
        ),
    }
}
