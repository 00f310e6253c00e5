#include "textflag.h"

// All loops take whole groups of 8 words. The callers have checked that the
// groups lie inside the slices; nothing outside of them is touched.

// UNPACKTABLE readies the registers that UNPACK uses: Z1 the bytes of each value,
// Z2 the bits before it in the first, Z3 its bits, K1 the w bytes of a group (no
// other is read), SI the packed bytes, DX the width.
#define UNPACKTABLE \
	VMOVDQU64 (BX), Z1; \
	VMOVDQU64 64(BX), Z2; \
	VPBROADCASTQ 128(BX), Z3; \
	KMOVQ 136(BX), K1

// UNPACK sets Z0 to the next 8 values.
#define UNPACK \
	VMOVDQU8.Z (SI), K1, Z0; \
	VPERMB Z0, Z1, Z0; \
	VPSRLVQ Z2, Z0, Z0; \
	VPANDQ Z3, Z0, Z0; \
	ADDQ DX, SI

// OFFSETS sets Z0 to the next 8 offsets, unpacked, times the factor that Z6 and R8 are.
// Without a src it goes to load_, where LOADED takes them from dst.
#define OFFSETS(load_, factor_, sum_) \
	TESTQ SI, SI; \
	JZ load_; \
	UNPACK; \
factor_: \
	CMPQ R8, $1; \
	JEQ sum_; \
	VPMULLQ Z6, Z0, Z0; \
sum_:

#define LOADED(load_, factor_) \
load_: \
	VMOVDQU64 (DI), Z0; \
	JMP factor_

// QUOTIENT sets z to the doubles nearest to its integers, as doubles, divided
// by a power of ten; see decimalScale. Z7 and Z8 are the inverse.
#define QUOTIENT(z) \
	VCVTQQ2PD z, z; \
	VMULPD Z8, z, Z9; \
	VFMADD213PD Z9, Z7, z

// func unpack512(dst *uint64, src *byte, groups int, w uint, t *unpackTable)
TEXT ·unpack512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ w+24(FP), DX
	MOVQ t+32(FP), BX
	UNPACKTABLE

unpackLoop:
	UNPACK
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	DECQ CX
	JNZ unpackLoop
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

// func divide512(v *uint64, groups int, scale *decimalScale)
TEXT ·divide512(SB), NOSPLIT, $0-24
	MOVQ v+0(FP), DI
	MOVQ groups+8(FP), CX
	MOVQ scale+16(FP), BX
	VBROADCASTSD 8(BX), Z7
	VBROADCASTSD 16(BX), Z8

divideLoop:
	VMOVDQU64 (DI), Z0
	QUOTIENT(Z0)
	VMOVUPD Z0, (DI)
	ADDQ $64, DI
	DECQ CX
	JNZ divideLoop
	VZEROUPPER
	RET

// func linearFrame512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, f *frameLoop)
//
// Without a src dst holds the offsets already.
TEXT ·linearFrame512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ w+24(FP), DX
	MOVQ t+32(FP), BX
	TESTQ SI, SI
	JZ linearFrameStart
	UNPACKTABLE

linearFrameStart:
	MOVQ f+40(FP), BX
	VMOVDQU64 lanes<>(SB), Z4
	VPBROADCASTQ 8(BX), Z5
	VPMULLQ Z5, Z4, Z4
	VPBROADCASTQ (BX), Z6
	VPADDQ Z6, Z4, Z4   // base + step*lane
	VPSLLQ $3, Z5, Z5   // to the next group
	MOVQ 16(BX), R8
	VPBROADCASTQ R8, Z6 // factor
	MOVQ 24(BX), BX
	TESTQ BX, BX
	JNZ linearFrameFloats

linearFrameLoop:
	OFFSETS(linearFrameLoad, linearFrameFactor, linearFrameSum)
	VPADDQ Z4, Z0, Z0
	VPADDQ Z5, Z4, Z4
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	DECQ CX
	JNZ linearFrameLoop
	VZEROUPPER
	RET

	LOADED(linearFrameLoad, linearFrameFactor)

linearFrameFloats:
	VBROADCASTSD 8(BX), Z7
	VBROADCASTSD 16(BX), Z8

linearFrameFloatLoop:
	OFFSETS(linearFrameFloatLoad, linearFrameFloatFactor, linearFrameFloatSum)
	VPADDQ Z4, Z0, Z0
	VPADDQ Z5, Z4, Z4
	QUOTIENT(Z0)
	VMOVUPD Z0, (DI)
	ADDQ $64, DI
	DECQ CX
	JNZ linearFrameFloatLoop
	VZEROUPPER
	RET

	LOADED(linearFrameFloatLoad, linearFrameFloatFactor)

// PREFIX turns the offsets in Z0 into sums of base and them and those before,
// and Z4 into the last one in all lanes. Z6 is the factor and R8 too, Z11 base*(lane+1), Z10 base*8,
// Z12 zeros, Z13 the number of the last lane.
#define PREFIX \
	VALIGNQ $7, Z12, Z0, Z14; \
	VPADDQ Z14, Z0, Z0; \
	VALIGNQ $6, Z12, Z0, Z14; \
	VPADDQ Z14, Z0, Z0; \
	VALIGNQ $4, Z12, Z0, Z14; \
	VPADDQ Z14, Z0, Z0; \
	VPERMQ Z0, Z13, Z14; \
	VPADDQ Z4, Z0, Z0; \
	VPADDQ Z10, Z4, Z4; \
	VPADDQ Z11, Z0, Z0; \
	VPADDQ Z14, Z4, Z4

// func deltaFrame512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, f *frameLoop) uint64
//
// Without a src dst holds the offsets already.
TEXT ·deltaFrame512(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ w+24(FP), DX
	MOVQ t+32(FP), BX
	TESTQ SI, SI
	JZ deltaFrameStart
	UNPACKTABLE

deltaFrameStart:
	MOVQ f+40(FP), BX
	VPBROADCASTQ 8(BX), Z4  // the value before
	VPBROADCASTQ (BX), Z10
	VPMULLQ lanes<>(SB), Z10, Z11
	VPADDQ Z10, Z11, Z11
	VPSLLQ $3, Z10, Z10
	VPXORQ Z12, Z12, Z12
	MOVQ $7, AX
	VPBROADCASTQ AX, Z13
	MOVQ 16(BX), R8
	VPBROADCASTQ R8, Z6
	MOVQ 24(BX), BX
	TESTQ BX, BX
	JNZ deltaFrameFloats

deltaFrameLoop:
	OFFSETS(deltaFrameLoad, deltaFrameFactor, deltaFrameSum)
	PREFIX
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	DECQ CX
	JNZ deltaFrameLoop
	VMOVQ X4, AX
	MOVQ AX, ret+48(FP)
	VZEROUPPER
	RET

	LOADED(deltaFrameLoad, deltaFrameFactor)

deltaFrameFloats:
	VBROADCASTSD 8(BX), Z7
	VBROADCASTSD 16(BX), Z8

deltaFrameFloatLoop:
	OFFSETS(deltaFrameFloatLoad, deltaFrameFloatFactor, deltaFrameFloatSum)
	PREFIX
	QUOTIENT(Z0)
	VMOVUPD Z0, (DI)
	ADDQ $64, DI
	DECQ CX
	JNZ deltaFrameFloatLoop
	VMOVQ X4, AX
	MOVQ AX, ret+48(FP)
	VZEROUPPER
	RET

	LOADED(deltaFrameFloatLoad, deltaFrameFloatFactor)

// NARROW sets Z0 and Z16 to the next 16 values of a delta frame of which the offsets
// and the sums of 16 fit 32 bits: Z2 and Z3 are those of 32-bit lanes. Z4 is the last
// value in all lanes, Z11 base*(lane+1), Z15 base*(lane+9), the rest as for PREFIX.
#define NARROW(sum) \
	VMOVDQU8.Z (SI), K1, Z0; \
	VPERMB Z0, Z1, Z0; \
	VPSRLVD Z2, Z0, Z0; \
	VPANDQ Z3, Z0, Z0; \
	ADDQ DX, SI; \
	VALIGND $15, Z12, Z0, Z14; \
	VPADDD Z14, Z0, Z0; \
	VALIGND $14, Z12, Z0, Z14; \
	VPADDD Z14, Z0, Z0; \
	VALIGND $12, Z12, Z0, Z14; \
	VPADDD Z14, Z0, Z0; \
	VALIGND $8, Z12, Z0, Z14; \
	VPADDD Z14, Z0, Z0; \
	VEXTRACTI64X4 $1, Z0, Y16; \
	VPMOVZXDQ Y0, Z0; \
	VPMOVZXDQ Y16, Z16; \
	CMPQ R8, $1; \
	JEQ sum; \
	VPMULLQ Z6, Z0, Z0; \
	VPMULLQ Z6, Z16, Z16; \
sum: \
	VPADDQ Z4, Z11, Z17; \
	VPADDQ Z4, Z15, Z18; \
	VPADDQ Z17, Z0, Z0; \
	VPADDQ Z18, Z16, Z16; \
	VPERMQ Z16, Z13, Z4

// func deltaNarrow512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, f *frameLoop) uint64
//
// Groups are of 16 values here.
TEXT ·deltaNarrow512(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ w+24(FP), DX
	ADDQ DX, DX
	MOVQ t+32(FP), BX
	UNPACKTABLE
	MOVQ f+40(FP), BX
	VPBROADCASTQ 8(BX), Z4
	VPBROADCASTQ (BX), Z10
	VPMULLQ lanes<>(SB), Z10, Z11
	VPADDQ Z10, Z11, Z11
	VPSLLQ $3, Z10, Z10
	VPADDQ Z10, Z11, Z15
	VPXORQ Z12, Z12, Z12
	MOVQ $7, AX
	VPBROADCASTQ AX, Z13
	MOVQ 16(BX), R8
	VPBROADCASTQ R8, Z6
	MOVQ 24(BX), BX
	TESTQ BX, BX
	JNZ deltaNarrowFloats

deltaNarrowLoop:
	NARROW(deltaNarrowSum)
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z16, 64(DI)
	ADDQ $128, DI
	DECQ CX
	JNZ deltaNarrowLoop
	VMOVQ X4, AX
	MOVQ AX, ret+48(FP)
	VZEROUPPER
	RET

deltaNarrowFloats:
	VBROADCASTSD 8(BX), Z7
	VBROADCASTSD 16(BX), Z8

deltaNarrowFloatLoop:
	NARROW(deltaNarrowFloatSum)
	QUOTIENT(Z0)
	QUOTIENT(Z16)
	VMOVUPD Z0, (DI)
	VMOVUPD Z16, 64(DI)
	ADDQ $128, DI
	DECQ CX
	JNZ deltaNarrowFloatLoop
	VMOVQ X4, AX
	MOVQ AX, ret+48(FP)
	VZEROUPPER
	RET

// func split512(dst *uint64, src *byte, groups int, w uint, t *unpackTable, right uint, dict *[8]uint64)
TEXT ·split512(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ w+24(FP), DX
	MOVQ t+32(FP), BX
	UNPACKTABLE
	MOVQ right+40(FP), AX
	VMOVQ AX, X4
	MOVQ dict+48(FP), BX
	VMOVDQU64 (BX), Z5
	VPTERNLOGQ $0xff, Z3, Z3, Z3
	VPSLLQ X4, Z3, Z3          // the bits of the left part

splitLoop:
	VMOVDQU8.Z (SI), K1, Z0
	VPERMB Z0, Z1, Z0
	VPSRLVQ Z2, Z0, Z0
	VPSRLQ X4, Z0, Z6          // the code, and what counts for nothing
	VPERMQ Z5, Z6, Z6
	VPTERNLOGQ $0xd8, Z3, Z6, Z0 // left part of Z6, right part of Z0
	VMOVDQU64 Z0, (DI)
	ADDQ DX, SI
	ADDQ $64, DI
	DECQ CX
	JNZ splitLoop
	VZEROUPPER
	RET

// func join512(dst *uint64, rests *byte, low *uint64, groups int, w, zigzag uint)
TEXT ·join512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ rests+8(FP), R8
	MOVQ low+16(FP), SI
	MOVQ groups+24(FP), CX
	VMOVQ w+32(FP), X1
	VMOVQ zigzag+40(FP), X5
	VPBROADCASTQ X5, Z2
	VPXORQ Z3, Z3, Z3

joinLoop:
	VPMOVZXBQ (R8), Z0
	VPSLLQ X1, Z0, Z0
	VPORQ (SI), Z0, Z0
	VPANDQ Z2, Z0, Z4         // the sign
	VPSRLQ X5, Z0, Z0
	VPSUBQ Z4, Z3, Z4
	VPXORQ Z4, Z0, Z0
	VMOVDQU64 Z0, (DI)
	ADDQ $64, DI
	ADDQ $64, SI
	ADDQ $8, R8
	DECQ CX
	JNZ joinLoop
	VZEROUPPER
	RET
