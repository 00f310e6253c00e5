package vector

import "golang.org/x/sys/cpu"

// Best returns the greatest Form that the processor has. It obeys GODEBUG:
// cpu.avx512f=off leaves AVX2, and cpu.avx2=off in addition leaves InGo.
func Best() Form {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA:
		return InGo
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VBMI:
		return AVX512
	}
	return AVX2
}
