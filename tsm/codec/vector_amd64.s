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

// The loops below are the AVX2 forms. They take fours of words, and one step each:
// a block of a thousand words stays in the first cache between them.

// func unpack256(dst *uint64, src *byte, groups int, w uint, t *unpackTable)
//
// Two values lie in 16 bytes. R9, R10 and R11 are the first bytes of the values 2, 4
// and 6 of a group; 16 bytes are read from there on.
TEXT ·unpack256(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ w+24(FP), DX
	MOVQ t+32(FP), BX
	VMOVDQU (BX), Y1
	VMOVDQU 32(BX), Y2
	VMOVDQU 64(BX), Y3
	VMOVDQU 96(BX), Y4
	VPBROADCASTQ 128(BX), Y5
	LEAQ (DX)(DX*1), R9
	LEAQ (R9)(R9*1), R10
	LEAQ (R9)(R10*1), R11
	SHRQ $3, R9
	SHRQ $3, R10
	SHRQ $3, R11

unpack256Loop:
	VMOVDQU (SI), X0
	VMOVDQU (SI)(R10*1), X6
	VINSERTI128 $1, (SI)(R9*1), Y0, Y0
	VINSERTI128 $1, (SI)(R11*1), Y6, Y6
	VPSHUFB Y1, Y0, Y0
	VPSHUFB Y2, Y6, Y6
	VPSRLVQ Y3, Y0, Y0
	VPSRLVQ Y4, Y6, Y6
	VPAND Y5, Y0, Y0
	VPAND Y5, Y6, Y6
	VMOVDQU Y0, (DI)
	VMOVDQU Y6, 32(DI)
	ADDQ DX, SI
	ADDQ $64, DI
	DECQ CX
	JNZ unpack256Loop
	VZEROUPPER
	RET

// RAMP256 sets y to 0, 1, 2 and 3 times the words in all lanes of x. It uses Y0 and Y1.
#define RAMP256(x, y) \
	VPXOR y, y, y; \
	VPADDQ x, x, Y0; \
	VPADDQ x, Y0, Y1; \
	VPBLENDD $0x0c, x, y, y; \
	VPBLENDD $0x30, Y0, y, y; \
	VPBLENDD $0xc0, Y1, y, y

// FACTOR256 multiplies the words in Y0 by the factor in Y6, the high half of which is Y7.
#define FACTOR256 \
	VPSRLQ $32, Y0, Y8; \
	VPMULUDQ Y6, Y8, Y8; \
	VPMULUDQ Y7, Y0, Y9; \
	VPADDQ Y9, Y8, Y8; \
	VPSLLQ $32, Y8, Y8; \
	VPMULUDQ Y6, Y0, Y0; \
	VPADDQ Y8, Y0, Y0

// func linearFrame256(dst *uint64, fours int, f *frameLoop)
TEXT ·linearFrame256(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ fours+8(FP), CX
	MOVQ f+16(FP), BX
	VPBROADCASTQ 8(BX), Y5
	RAMP256(Y5, Y4)
	VPBROADCASTQ (BX), Y6
	VPADDQ Y6, Y4, Y4   // base + step*lane
	VPSLLQ $2, Y5, Y5   // to the next four
	VPBROADCASTQ 16(BX), Y6
	VPSRLQ $32, Y6, Y7
	CMPQ 16(BX), $1
	JNE linearFrame256Factor

linearFrame256Loop:
	VPADDQ (DI), Y4, Y0
	VPADDQ Y5, Y4, Y4
	VMOVDQU Y0, (DI)
	ADDQ $32, DI
	DECQ CX
	JNZ linearFrame256Loop
	VZEROUPPER
	RET

linearFrame256Factor:
	VMOVDQU (DI), Y0
	FACTOR256
	VPADDQ Y4, Y0, Y0
	VPADDQ Y5, Y4, Y4
	VMOVDQU Y0, (DI)
	ADDQ $32, DI
	DECQ CX
	JNZ linearFrame256Factor
	VZEROUPPER
	RET

// func deltaFrame256(dst *uint64, fours int, f *frameLoop) uint64
//
// Y4 is the value before in all lanes, Y11 base*(lane+1), Y12 zeros.
TEXT ·deltaFrame256(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ fours+8(FP), CX
	MOVQ f+16(FP), BX
	VPBROADCASTQ (BX), Y10
	RAMP256(Y10, Y11)
	VPADDQ Y10, Y11, Y11
	VPBROADCASTQ 8(BX), Y4
	VPXOR Y12, Y12, Y12
	MOVQ 16(BX), R8
	VPBROADCASTQ 16(BX), Y6
	VPSRLQ $32, Y6, Y7

deltaFrame256Loop:
	VMOVDQU (DI), Y0
	CMPQ R8, $1
	JEQ deltaFrame256Sum
	FACTOR256

deltaFrame256Sum:
	VPSLLDQ $8, Y0, Y1
	VPADDQ Y11, Y0, Y2
	VPADDQ Y1, Y0, Y0
	VPADDQ Y1, Y2, Y2
	VPERMQ $0x50, Y0, Y0      // the sum of the lower two in the upper two
	VPBLENDD $0xf0, Y0, Y12, Y0
	VPADDQ Y2, Y0, Y0
	VPERMQ $0xff, Y0, Y1
	VPADDQ Y4, Y0, Y0
	VPADDQ Y1, Y4, Y4
	VMOVDQU Y0, (DI)
	ADDQ $32, DI
	DECQ CX
	JNZ deltaFrame256Loop
	VMOVQ X4, AX
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

// func divide256(v *uint64, fours int, scale *decimalScale)
//
// An integer becomes a double in two halves, each exact, which are added: the lower
// on top of 2^52, the upper with its sign turned on top of 2^84 + 2^63.
TEXT ·divide256(SB), NOSPLIT, $0-24
	MOVQ v+0(FP), DI
	MOVQ fours+8(FP), CX
	MOVQ scale+16(FP), BX
	VBROADCASTSD 8(BX), Y7
	VBROADCASTSD 16(BX), Y8
	MOVQ $0x4330000000000000, AX
	VMOVQ AX, X4
	VPBROADCASTQ X4, Y4
	MOVQ $0x4530000080000000, AX
	VMOVQ AX, X5
	VPBROADCASTQ X5, Y5
	MOVQ $0x4530000080100000, AX
	VMOVQ AX, X6
	VPBROADCASTQ X6, Y6

divide256Loop:
	VMOVDQU (DI), Y0
	VPBLENDD $0x55, Y0, Y4, Y1
	VPSRLQ $32, Y0, Y0
	VPXOR Y5, Y0, Y0
	VSUBPD Y6, Y0, Y0
	VADDPD Y1, Y0, Y0
	VMULPD Y8, Y0, Y9
	VFMADD213PD Y9, Y7, Y0
	VMOVUPD Y0, (DI)
	ADDQ $32, DI
	DECQ CX
	JNZ divide256Loop
	VZEROUPPER
	RET

// func join256(dst *uint64, rests *byte, low *uint64, fours int, w, zigzag uint)
TEXT ·join256(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ rests+8(FP), R8
	MOVQ low+16(FP), SI
	MOVQ fours+24(FP), CX
	VMOVQ w+32(FP), X1
	VMOVQ zigzag+40(FP), X5
	VPBROADCASTQ X5, Y2
	VPXOR Y3, Y3, Y3

join256Loop:
	VPMOVZXBQ (R8), Y0
	VPSLLQ X1, Y0, Y0
	VPOR (SI), Y0, Y0
	VPAND Y2, Y0, Y4          // the sign
	VPSRLQ X5, Y0, Y0
	VPSUBQ Y4, Y3, Y4
	VPXOR Y4, Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ $32, DI
	ADDQ $32, SI
	ADDQ $4, R8
	DECQ CX
	JNZ join256Loop
	VZEROUPPER
	RET

// func split256(v *uint64, fours int, right uint, dict *[8]uint64)
//
// A right part has 48 bits or more, so the upper halves of the entries, Y5, say all.
TEXT ·split256(SB), NOSPLIT, $0-32
	MOVQ v+0(FP), DI
	MOVQ fours+8(FP), CX
	VMOVQ right+16(FP), X4
	MOVQ dict+24(FP), BX
	VMOVDQU (BX), Y5
	VSHUFPS $0xdd, 32(BX), Y5, Y5
	VPERMQ $0xd8, Y5, Y5
	VPCMPEQD Y3, Y3, Y3
	VPSLLQ X4, Y3, Y3          // the bits of the left part

split256Loop:
	VMOVDQU (DI), Y0
	VPSRLQ X4, Y0, Y1
	VPSLLQ $32, Y1, Y1         // the code in the upper half
	VPERMD Y5, Y1, Y1
	VPAND Y3, Y1, Y1
	VPANDN Y0, Y3, Y0
	VPOR Y1, Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ $32, DI
	DECQ CX
	JNZ split256Loop
	VZEROUPPER
	RET
