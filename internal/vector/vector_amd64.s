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

// LANES256 adds the 4 values at off(SI) to the sums in s, and what that loses to e.
#define LANES256(off, s, e) \
	VMOVUPD off(SI), Y8; \
	VADDPD Y8, s, Y9; \
	VSUBPD s, Y9, Y10; \
	VSUBPD Y10, Y9, Y11; \
	VSUBPD Y11, s, Y11; \
	VSUBPD Y10, Y8, Y12; \
	VADDPD Y12, Y11, Y11; \
	VADDPD Y11, e, e; \
	VMOVAPD Y9, s

// RUNS combines the values of each of 8 runs side by side: Z1 is the first value of
// each run, DX the bytes of 8 runs. The second operand of combine is the new value: a
// float that is not less, or not more, leaves the old one.
#define RUNS(gather, combine, loop_, rows_, next_) \
	MOVQ dst+0(FP), DI; \
	MOVQ x+8(FP), SI; \
	MOVQ groups+16(FP), CX; \
	MOVQ k+24(FP), DX; \
	VPBROADCASTQ DX, Z1; \
	VPMULLQ lanes<>(SB), Z1, Z1; \
	SHLQ $6, DX; \
loop_: \
	MOVQ k+24(FP), AX; \
	MOVQ SI, BX; \
	KXNORB K1, K1, K1; \
	gather (BX)(Z1*8), K1, Z0; \
	JMP next_; \
rows_: \
	ADDQ $8, BX; \
	KXNORB K1, K1, K1; \
	gather (BX)(Z1*8), K1, Z2; \
	combine Z0, Z2, Z0; \
next_: \
	DECQ AX; \
	JNZ rows_; \
	VMOVDQU64 Z0, (DI); \
	ADDQ $64, DI; \
	ADDQ DX, SI; \
	DECQ CX; \
	JNZ loop_; \
	VZEROUPPER; \
	RET

// INTS combines the values of x in 8 lanes, two vectors at a time.
#define INTS(combine, loop_, odd_, done_) \
	MOVQ x+0(FP), SI; \
	MOVQ groups+8(FP), CX; \
	MOVQ lanes+16(FP), DI; \
	VMOVDQU64 (SI), Z0; \
	VMOVDQA64 Z0, Z1; \
	CMPQ CX, $2; \
	JLT odd_; \
loop_: \
	VMOVDQU64 (SI), Z2; \
	VMOVDQU64 64(SI), Z3; \
	combine Z2, Z0, Z0; \
	combine Z3, Z1, Z1; \
	ADDQ $128, SI; \
	SUBQ $2, CX; \
	CMPQ CX, $2; \
	JGE loop_; \
odd_: \
	TESTQ CX, CX; \
	JZ done_; \
	VMOVDQU64 (SI), Z2; \
	combine Z2, Z0, Z0; \
done_: \
	combine Z1, Z0, Z0; \
	VMOVDQU64 Z0, (DI); \
	VZEROUPPER; \
	RET

// FLOATS is INTS for doubles; K1 remembers the lanes that had a NaN.
#define FLOATS(combine, loop_, odd_, done_) \
	MOVQ x+0(FP), SI; \
	MOVQ groups+8(FP), CX; \
	MOVQ lanes+16(FP), DI; \
	VMOVDQU64 (SI), Z0; \
	VMOVDQA64 Z0, Z1; \
	KXORW K1, K1, K1; \
	CMPQ CX, $2; \
	JLT odd_; \
loop_: \
	VMOVDQU64 (SI), Z2; \
	VMOVDQU64 64(SI), Z3; \
	VCMPPD $3, Z2, Z3, K2; \
	KORW K2, K1, K1; \
	combine Z2, Z0, Z0; \
	combine Z3, Z1, Z1; \
	ADDQ $128, SI; \
	SUBQ $2, CX; \
	CMPQ CX, $2; \
	JGE loop_; \
odd_: \
	TESTQ CX, CX; \
	JZ done_; \
	VMOVDQU64 (SI), Z2; \
	VCMPPD $3, Z2, Z2, K2; \
	KORW K2, K1, K1; \
	combine Z2, Z0, Z0; \
done_: \
	combine Z1, Z0, Z0; \
	VMOVDQU64 Z0, (DI); \
	KMOVW K1, AX; \
	MOVQ AX, nan+24(FP); \
	VZEROUPPER; \
	RET

// PAIRS256 combines the values of x in two vectors of 4 lanes. init fills Y0 and Y1.
#define PAIRS256(init, combine, loop_) \
	MOVQ x+0(FP), SI; \
	MOVQ groups+8(FP), CX; \
	MOVQ lanes+16(FP), DI; \
	init; \
loop_: \
	VMOVDQU (SI), Y2; \
	VMOVDQU 32(SI), Y3; \
	combine(Y2, Y0); \
	combine(Y3, Y1); \
	ADDQ $64, SI; \
	DECQ CX; \
	JNZ loop_; \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, 32(DI); \
	VMOVMSKPD Y5, AX; \
	VZEROUPPER

#define NONE256 \
	VPXOR Y0, Y0, Y0; \
	VPXOR Y1, Y1, Y1

#define FIRST256 \
	VMOVDQU (SI), Y0; \
	VMOVDQU 32(SI), Y1; \
	VXORPD Y5, Y5, Y5

#define SUM256(x, y) \
	VPADDQ x, y, y

#define MIN256(x, y) \
	VPCMPGTQ x, y, Y4; \
	VBLENDVPD Y4, x, y, y

#define MAX256(x, y) \
	VPCMPGTQ y, x, Y4; \
	VBLENDVPD Y4, x, y, y

// The loops of doubles mark the lanes that had a NaN in Y5.
#define MINFLOAT256(x, y) \
	VCMPPD $3, x, x, Y4; \
	VORPD Y4, Y5, Y5; \
	VMINPD x, y, y

#define MAXFLOAT256(x, y) \
	VCMPPD $3, x, x, Y4; \
	VORPD Y4, Y5, Y5; \
	VMAXPD x, y, y

// func sumInts256(x *int64, groups int, lanes *[8]int64)
TEXT ·sumInts256(SB), NOSPLIT, $0-24
	PAIRS256(NONE256, SUM256, sumInts256Loop)
	RET

// func minInts256(x *int64, groups int, lanes *[8]int64)
TEXT ·minInts256(SB), NOSPLIT, $0-24
	PAIRS256(FIRST256, MIN256, minInts256Loop)
	RET

// func maxInts256(x *int64, groups int, lanes *[8]int64)
TEXT ·maxInts256(SB), NOSPLIT, $0-24
	PAIRS256(FIRST256, MAX256, maxInts256Loop)
	RET

// func minFloats256(x *float64, groups int, lanes *[8]float64) (nan uint64)
TEXT ·minFloats256(SB), NOSPLIT, $0-32
	PAIRS256(FIRST256, MINFLOAT256, minFloats256Loop)
	MOVQ AX, nan+24(FP)
	RET

// func maxFloats256(x *float64, groups int, lanes *[8]float64) (nan uint64)
TEXT ·maxFloats256(SB), NOSPLIT, $0-32
	PAIRS256(FIRST256, MAXFLOAT256, maxFloats256Loop)
	MOVQ AX, nan+24(FP)
	RET

// func floatLanes256(x *float64, groups int, sum, lost *[16]float64)
TEXT ·floatLanes256(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ groups+8(FP), CX
	MOVQ sum+16(FP), DI
	MOVQ lost+24(FP), DX
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	VMOVUPD 64(SI), Y2
	VMOVUPD 96(SI), Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	JMP floatLanesNext

floatLanesLoop:
	LANES256(0, Y0, Y4)
	LANES256(32, Y1, Y5)
	LANES256(64, Y2, Y6)
	LANES256(96, Y3, Y7)

floatLanesNext:
	ADDQ $128, SI
	DECQ CX
	JNZ floatLanesLoop
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VMOVUPD Y4, (DX)
	VMOVUPD Y5, 32(DX)
	VMOVUPD Y6, 64(DX)
	VMOVUPD Y7, 96(DX)
	VZEROUPPER
	RET

// func sumLongRuns512(sum, lost, x *float64, runs, k int)
//
// Z0 and Z1 are the lanes' sums, Z2 and Z3 what they lost. k is 16 or more.
TEXT ·sumLongRuns512(SB), NOSPLIT, $0-40
	MOVQ sum+0(FP), DI
	MOVQ lost+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ runs+24(FP), DX
	MOVQ k+32(FP), CX
	MOVL $1, AX
	ANDL $15, CX
	SHLL CX, AX
	DECL AX                   // a bit for every value behind the last 16
	MOVQ CX, R9
	KMOVB AX, K1
	SHRL $8, AX
	KMOVB AX, K2

sumLongRunsRun:
	MOVQ k+32(FP), CX
	SHRQ $4, CX
	VMOVUPD (SI), Z0
	VMOVUPD 64(SI), Z1
	VXORPD Z2, Z2, Z2
	VXORPD Z3, Z3, Z3
	JMP sumLongRunsNext

sumLongRunsLoop:
	VMOVUPD (SI), Z4
	VMOVUPD 64(SI), Z5
	TWOSUM(Z4, Z0, Z2)
	TWOSUM(Z5, Z1, Z3)

sumLongRunsNext:
	ADDQ $128, SI
	DECQ CX
	JNZ sumLongRunsLoop
	TESTQ R9, R9
	JZ sumLongRunsMerge
	VMOVUPD.Z (SI), K1, Z4
	VMOVUPD.Z 64(SI), K2, Z5
	VMOVAPD Z0, Z6
	VMOVAPD Z1, Z7
	VMOVAPD Z2, Z8
	VMOVAPD Z3, Z9
	TWOSUM(Z4, Z6, Z8)
	TWOSUM(Z5, Z7, Z9)
	VMOVAPD Z6, K1, Z0
	VMOVAPD Z7, K2, Z1
	VMOVAPD Z8, K1, Z2
	VMOVAPD Z9, K2, Z3
	LEAQ (SI)(R9*8), SI

sumLongRunsMerge:
	VADDPD Z3, Z2, Z2
	TWOSUM(Z1, Z0, Z2)
	VEXTRACTF64X4 $1, Z0, Y1
	VEXTRACTF64X4 $1, Z2, Y3
	VADDPD Z3, Z2, Z2
	TWOSUM(Z1, Z0, Z2)
	VEXTRACTF128 $1, Y0, X1
	VEXTRACTF128 $1, Y2, X3
	VADDPD Z3, Z2, Z2
	TWOSUM(Z1, Z0, Z2)
	VPERMILPD $1, X0, X1
	VPERMILPD $1, X2, X3
	VADDPD Z3, Z2, Z2
	TWOSUM(Z1, Z0, Z2)
	VMOVSD X0, (DI)
	VMOVSD X2, (R8)
	ADDQ $8, DI
	ADDQ $8, R8
	DECQ DX
	JNZ sumLongRunsRun
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
	INTS(VPMINSQ, minInts512Loop, minInts512Odd, minInts512Done)

// func maxInts512(x *int64, groups int, lanes *[8]int64)
TEXT ·maxInts512(SB), NOSPLIT, $0-24
	INTS(VPMAXSQ, maxInts512Loop, maxInts512Odd, maxInts512Done)

// func minFloats512(x *float64, groups int, lanes *[8]float64) (nan uint64)
TEXT ·minFloats512(SB), NOSPLIT, $0-32
	FLOATS(VMINPD, minFloats512Loop, minFloats512Odd, minFloats512Done)

// func maxFloats512(x *float64, groups int, lanes *[8]float64) (nan uint64)
TEXT ·maxFloats512(SB), NOSPLIT, $0-32
	FLOATS(VMAXPD, maxFloats512Loop, maxFloats512Odd, maxFloats512Done)

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
	RUNS(VPGATHERQQ, VPADDQ, sumRuns512Loop, sumRuns512Rows, sumRuns512Next)

// func minRuns512(dst, x *int64, groups, k int)
TEXT ·minRuns512(SB), NOSPLIT, $0-32
	RUNS(VPGATHERQQ, VPMINSQ, minRuns512Loop, minRuns512Rows, minRuns512Next)

// func maxRuns512(dst, x *int64, groups, k int)
TEXT ·maxRuns512(SB), NOSPLIT, $0-32
	RUNS(VPGATHERQQ, VPMAXSQ, maxRuns512Loop, maxRuns512Rows, maxRuns512Next)

// func minFloatRuns512(dst, x *float64, groups, k int)
TEXT ·minFloatRuns512(SB), NOSPLIT, $0-32
	RUNS(VGATHERQPD, VMINPD, minFloatRuns512Loop, minFloatRuns512Rows, minFloatRuns512Next)

// func maxFloatRuns512(dst, x *float64, groups, k int)
TEXT ·maxFloatRuns512(SB), NOSPLIT, $0-32
	RUNS(VGATHERQPD, VMAXPD, maxFloatRuns512Loop, maxFloatRuns512Rows, maxFloatRuns512Next)

// func sumShortRuns512(sum, lost, x *float64, groups, k int)
TEXT ·sumShortRuns512(SB), NOSPLIT, $0-40
	MOVQ sum+0(FP), DI
	MOVQ lost+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ groups+24(FP), CX
	MOVQ k+32(FP), DX
	VPBROADCASTQ DX, Z1
	VPMULLQ lanes<>(SB), Z1, Z1 // the first value of each run
	SHLQ $6, DX                 // bytes of 8 runs

sumShortRunsLoop:
	MOVQ SI, BX
	MOVQ k+32(FP), AX
	NEXT
	VMOVAPD Z2, Z10
	VXORPD Z14, Z14, Z14
	JMP sumShortRunsNext

sumShortRunsRows:
	NEXT
	TWOSUM(Z2, Z10, Z14)

sumShortRunsNext:
	DECQ AX
	JNZ sumShortRunsRows
	VMOVUPD Z10, (DI)
	VMOVUPD Z14, (R8)
	ADDQ $64, DI
	ADDQ $64, R8
	ADDQ DX, SI
	DECQ CX
	JNZ sumShortRunsLoop
	VZEROUPPER
	RET
