#include "textflag.h"

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
