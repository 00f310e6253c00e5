#include "textflag.h"

// TWOSUM adds x to the sum s, and what that loses to e, as TwoSum does.
#define TWOSUM(x, s, e) \
	VADDPD x, s, Z20; \
	VSUBPD s, Z20, Z21; \
	VSUBPD Z21, Z20, Z22; \
	VSUBPD Z22, s, Z22; \
	VSUBPD Z21, x, Z23; \
	VADDPD Z23, Z22, Z22; \
	VADDPD Z22, e, e; \
	VMOVAPD Z20, s

// NEXT gathers the next value of 8 runs into Z2.
#define NEXT \
	KXNORB K1, K1, K1; \
	VGATHERQPD (BX)(Z1*8), K1, Z2; \
	ADDQ $8, BX

// All loops take whole groups of values. The callers have checked that the
// groups lie inside the slices.

// func floatLanes256(x *float64, groups int, sum, lost *[4]float64)
TEXT ·floatLanes256(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ sum+16(FP), DI
	MOVQ lost+24(FP), DX
	VXORPD Y0, Y0, Y0         // sums
	VXORPD Y1, Y1, Y1         // what they lost

floatLanesLoop:
	VMOVUPD (SI), Y2
	VADDPD Y2, Y0, Y3         // s = a + b
	VSUBPD Y0, Y3, Y4         // v = s - a
	VSUBPD Y4, Y3, Y5
	VSUBPD Y5, Y0, Y5         // a - (s - v)
	VSUBPD Y4, Y2, Y6         // b - v
	VADDPD Y6, Y5, Y5
	VADDPD Y5, Y1, Y1
	VMOVAPD Y3, Y0
	ADDQ $32, SI
	DECQ CX
	JNZ floatLanesLoop
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, (DX)
	VZEROUPPER
	RET

// func sumInts512(x *int64, groups int, lanes *[8]int64)
TEXT ·sumInts512(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ lanes+16(FP), DI
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	CMPQ CX, $2
	JLT sumInts512Odd

sumInts512Loop:
	VMOVDQU64 (SI), Z2
	VMOVDQU64 64(SI), Z3
	VPADDQ Z2, Z0, Z0
	VPADDQ Z3, Z1, Z1
	ADDQ $128, SI
	SUBQ $2, CX
	CMPQ CX, $2
	JGE sumInts512Loop

sumInts512Odd:
	TESTQ CX, CX
	JZ sumInts512Done
	VMOVDQU64 (SI), Z2
	VPADDQ Z2, Z0, Z0

sumInts512Done:
	VPADDQ Z1, Z0, Z0
	VMOVDQU64 Z0, (DI)
	VZEROUPPER
	RET

// func minInts512(x *int64, groups int, lanes *[8]int64)
TEXT ·minInts512(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ lanes+16(FP), DI
	VMOVDQU64 (SI), Z0
	VMOVDQA64 Z0, Z1
	CMPQ CX, $2
	JLT minInts512Odd

minInts512Loop:
	VMOVDQU64 (SI), Z2
	VMOVDQU64 64(SI), Z3
	VPMINSQ Z2, Z0, Z0
	VPMINSQ Z3, Z1, Z1
	ADDQ $128, SI
	SUBQ $2, CX
	CMPQ CX, $2
	JGE minInts512Loop

minInts512Odd:
	TESTQ CX, CX
	JZ minInts512Done
	VMOVDQU64 (SI), Z2
	VPMINSQ Z2, Z0, Z0

minInts512Done:
	VPMINSQ Z1, Z0, Z0
	VMOVDQU64 Z0, (DI)
	VZEROUPPER
	RET

// func maxInts512(x *int64, groups int, lanes *[8]int64)
TEXT ·maxInts512(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ lanes+16(FP), DI
	VMOVDQU64 (SI), Z0
	VMOVDQA64 Z0, Z1
	CMPQ CX, $2
	JLT maxInts512Odd

maxInts512Loop:
	VMOVDQU64 (SI), Z2
	VMOVDQU64 64(SI), Z3
	VPMAXSQ Z2, Z0, Z0
	VPMAXSQ Z3, Z1, Z1
	ADDQ $128, SI
	SUBQ $2, CX
	CMPQ CX, $2
	JGE maxInts512Loop

maxInts512Odd:
	TESTQ CX, CX
	JZ maxInts512Done
	VMOVDQU64 (SI), Z2
	VPMAXSQ Z2, Z0, Z0

maxInts512Done:
	VPMAXSQ Z1, Z0, Z0
	VMOVDQU64 Z0, (DI)
	VZEROUPPER
	RET

// func minFloats512(x *float64, groups int, lanes *[8]float64) (nan uint64)
TEXT ·minFloats512(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ lanes+16(FP), DI
	VMOVDQU64 (SI), Z0
	VMOVDQA64 Z0, Z1
	KXORW K1, K1, K1
	CMPQ CX, $2
	JLT minFloats512Odd

minFloats512Loop:
	VMOVDQU64 (SI), Z2
	VMOVDQU64 64(SI), Z3
	VCMPPD $3, Z2, Z3, K2   // unordered
	KORW K2, K1, K1
	VMINPD Z2, Z0, Z0
	VMINPD Z3, Z1, Z1
	ADDQ $128, SI
	SUBQ $2, CX
	CMPQ CX, $2
	JGE minFloats512Loop

minFloats512Odd:
	TESTQ CX, CX
	JZ minFloats512Done
	VMOVDQU64 (SI), Z2
	VCMPPD $3, Z2, Z2, K2
	KORW K2, K1, K1
	VMINPD Z2, Z0, Z0

minFloats512Done:
	VMINPD Z1, Z0, Z0
	VMOVDQU64 Z0, (DI)
	KMOVW K1, AX
	MOVQ AX, nan+24(FP)
	VZEROUPPER
	RET

// func maxFloats512(x *float64, groups int, lanes *[8]float64) (nan uint64)
TEXT ·maxFloats512(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ lanes+16(FP), DI
	VMOVDQU64 (SI), Z0
	VMOVDQA64 Z0, Z1
	KXORW K1, K1, K1
	CMPQ CX, $2
	JLT maxFloats512Odd

maxFloats512Loop:
	VMOVDQU64 (SI), Z2
	VMOVDQU64 64(SI), Z3
	VCMPPD $3, Z2, Z3, K2   // unordered
	KORW K2, K1, K1
	VMAXPD Z2, Z0, Z0
	VMAXPD Z3, Z1, Z1
	ADDQ $128, SI
	SUBQ $2, CX
	CMPQ CX, $2
	JGE maxFloats512Loop

maxFloats512Odd:
	TESTQ CX, CX
	JZ maxFloats512Done
	VMOVDQU64 (SI), Z2
	VCMPPD $3, Z2, Z2, K2
	KORW K2, K1, K1
	VMAXPD Z2, Z0, Z0

maxFloats512Done:
	VMAXPD Z1, Z0, Z0
	VMOVDQU64 Z0, (DI)
	KMOVW K1, AX
	MOVQ AX, nan+24(FP)
	VZEROUPPER
	RET

DATA lanes<>+0(SB)/8, $0
DATA lanes<>+8(SB)/8, $1
DATA lanes<>+16(SB)/8, $2
DATA lanes<>+24(SB)/8, $3
DATA lanes<>+32(SB)/8, $4
DATA lanes<>+40(SB)/8, $5
DATA lanes<>+48(SB)/8, $6
DATA lanes<>+56(SB)/8, $7
GLOBL lanes<>(SB), RODATA|NOPTR, $64

// func sumRuns512(dst, x *int64, groups, k int)
TEXT ·sumRuns512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ k+24(FP), DX
	VPBROADCASTQ DX, Z1
	VPMULLQ lanes<>(SB), Z1, Z1 // the first value of each run
	SHLQ $6, DX                 // bytes of 8 runs

sumRuns512Loop:
	MOVQ k+24(FP), AX
	MOVQ SI, BX
	KXNORB K1, K1, K1
	VPGATHERQQ (BX)(Z1*8), K1, Z0
	JMP sumRuns512Next

sumRuns512Rows:
	ADDQ $8, BX
	KXNORB K1, K1, K1
	VPGATHERQQ (BX)(Z1*8), K1, Z2
	VPADDQ Z2, Z0, Z0

sumRuns512Next:
	DECQ AX
	JNZ sumRuns512Rows
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	ADDQ DX, SI
	DECQ CX
	JNZ sumRuns512Loop
	VZEROUPPER
	RET

// func minRuns512(dst, x *int64, groups, k int)
TEXT ·minRuns512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ k+24(FP), DX
	VPBROADCASTQ DX, Z1
	VPMULLQ lanes<>(SB), Z1, Z1 // the first value of each run
	SHLQ $6, DX                 // bytes of 8 runs

minRuns512Loop:
	MOVQ k+24(FP), AX
	MOVQ SI, BX
	KXNORB K1, K1, K1
	VPGATHERQQ (BX)(Z1*8), K1, Z0
	JMP minRuns512Next

minRuns512Rows:
	ADDQ $8, BX
	KXNORB K1, K1, K1
	VPGATHERQQ (BX)(Z1*8), K1, Z2
	VPMINSQ Z2, Z0, Z0

minRuns512Next:
	DECQ AX
	JNZ minRuns512Rows
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	ADDQ DX, SI
	DECQ CX
	JNZ minRuns512Loop
	VZEROUPPER
	RET

// func maxRuns512(dst, x *int64, groups, k int)
TEXT ·maxRuns512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ k+24(FP), DX
	VPBROADCASTQ DX, Z1
	VPMULLQ lanes<>(SB), Z1, Z1 // the first value of each run
	SHLQ $6, DX                 // bytes of 8 runs

maxRuns512Loop:
	MOVQ k+24(FP), AX
	MOVQ SI, BX
	KXNORB K1, K1, K1
	VPGATHERQQ (BX)(Z1*8), K1, Z0
	JMP maxRuns512Next

maxRuns512Rows:
	ADDQ $8, BX
	KXNORB K1, K1, K1
	VPGATHERQQ (BX)(Z1*8), K1, Z2
	VPMAXSQ Z2, Z0, Z0

maxRuns512Next:
	DECQ AX
	JNZ maxRuns512Rows
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	ADDQ DX, SI
	DECQ CX
	JNZ maxRuns512Loop
	VZEROUPPER
	RET

// func minFloatRuns512(dst, x *float64, groups, k int)
TEXT ·minFloatRuns512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ k+24(FP), DX
	VPBROADCASTQ DX, Z1
	VPMULLQ lanes<>(SB), Z1, Z1 // the first value of each run
	SHLQ $6, DX                 // bytes of 8 runs

minFloatRuns512Loop:
	MOVQ k+24(FP), AX
	MOVQ SI, BX
	KXNORB K1, K1, K1
	VGATHERQPD (BX)(Z1*8), K1, Z0
	JMP minFloatRuns512Next

minFloatRuns512Rows:
	ADDQ $8, BX
	KXNORB K1, K1, K1
	VGATHERQPD (BX)(Z1*8), K1, Z2
	VMINPD Z0, Z2, Z0 // the old one where the new is not less

minFloatRuns512Next:
	DECQ AX
	JNZ minFloatRuns512Rows
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	ADDQ DX, SI
	DECQ CX
	JNZ minFloatRuns512Loop
	VZEROUPPER
	RET

// func maxFloatRuns512(dst, x *float64, groups, k int)
TEXT ·maxFloatRuns512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ k+24(FP), DX
	VPBROADCASTQ DX, Z1
	VPMULLQ lanes<>(SB), Z1, Z1 // the first value of each run
	SHLQ $6, DX                 // bytes of 8 runs

maxFloatRuns512Loop:
	MOVQ k+24(FP), AX
	MOVQ SI, BX
	KXNORB K1, K1, K1
	VGATHERQPD (BX)(Z1*8), K1, Z0
	JMP maxFloatRuns512Next

maxFloatRuns512Rows:
	ADDQ $8, BX
	KXNORB K1, K1, K1
	VGATHERQPD (BX)(Z1*8), K1, Z2
	VMAXPD Z0, Z2, Z0 // the old one where the new is not more

maxFloatRuns512Next:
	DECQ AX
	JNZ maxFloatRuns512Rows
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	ADDQ DX, SI
	DECQ CX
	JNZ maxFloatRuns512Loop
	VZEROUPPER
	RET

// func sumFloatRuns512(sum, lost, x *float64, groups, k int)
//
// Z10 to Z13 are the lanes' sums, Z14 to Z17 what they lost.
TEXT ·sumFloatRuns512(SB), NOSPLIT, $0-40
	MOVQ sum+0(FP), DI
	MOVQ lost+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ groups+24(FP), CX
	MOVQ k+32(FP), DX
	VPBROADCASTQ DX, Z1
	VPMULLQ lanes<>(SB), Z1, Z1 // the first value of each run
	SHLQ $6, DX                 // bytes of 8 runs

sumFloatRunsLoop:
	MOVQ SI, BX
	VXORPD Z10, Z10, Z10
	VXORPD Z11, Z11, Z11
	VXORPD Z12, Z12, Z12
	VXORPD Z13, Z13, Z13
	VXORPD Z14, Z14, Z14
	VXORPD Z15, Z15, Z15
	VXORPD Z16, Z16, Z16
	VXORPD Z17, Z17, Z17
	MOVQ k+32(FP), AX
	SUBQ $4, AX
	JLT sumFloatRunsRest

sumFloatRunsLanes:
	NEXT
	TWOSUM(Z2, Z10, Z14)
	NEXT
	TWOSUM(Z2, Z11, Z15)
	NEXT
	TWOSUM(Z2, Z12, Z16)
	NEXT
	TWOSUM(Z2, Z13, Z17)
	SUBQ $4, AX
	JGE sumFloatRunsLanes

sumFloatRunsRest:
	ADDQ $4, AX
	JZ sumFloatRunsMerge

sumFloatRunsRows:
	NEXT
	TWOSUM(Z2, Z10, Z14)
	DECQ AX
	JNZ sumFloatRunsRows

sumFloatRunsMerge:
	VADDPD Z15, Z14, Z14
	VADDPD Z17, Z16, Z16
	VADDPD Z16, Z14, Z14        // what the lanes lost
	VXORPD Z15, Z15, Z15
	VXORPD Z16, Z16, Z16
	VXORPD Z17, Z17, Z17
	TWOSUM(Z11, Z10, Z15)
	TWOSUM(Z13, Z12, Z16)
	TWOSUM(Z12, Z10, Z17)
	VADDPD Z16, Z15, Z15
	VADDPD Z15, Z14, Z14
	VADDPD Z17, Z14, Z14
	VMOVUPD Z10, (DI)
	VMOVUPD Z14, (R8)
	ADDQ $64, DI
	ADDQ $64, R8
	ADDQ DX, SI
	DECQ CX
	JNZ sumFloatRunsLoop
	VZEROUPPER
	RET
