package apptest

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// SetClock has the clock of the running process differ from that of the machine, until it
// ends. Clocks that only count, such as those of timers, do not change, as when somebody sets
// the clock of a machine. An error says why that cannot be done on this machine.
//
// The process is the real binary: what it calls to read the clock is a pointer, which
// the Go runtime sets at its start to a function of the kernel's page of functions (vDSO).
// SetClock writes another function into the unused end of that page, and its address into
// the pointer.
func (s *Server) SetClock(ahead time.Duration) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("clocks can be set on amd64 only")
	}
	pointer, err := symbol(Binary(s.t), "runtime.vdsoClockgettimeSym")
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", s.Pid()), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	word := make([]byte, 8)
	for end := time.Now().Add(time.Minute); binary.LittleEndian.Uint64(word) == 0; { // a process may just have begun
		if _, err := memory.ReadAt(word, pointer); err != nil || time.Now().After(end) {
			return fmt.Errorf("find what reads the clock: %w", err)
		}
	}
	first, last, err := pageOfFunctions(s.Pid())
	if err != nil {
		return err
	}
	code := clockFunction(int64(ahead / time.Second))
	at := last - 64 + 3 // the number in the code begins at a multiple of eight
	there := make([]byte, len(code))
	if _, err := memory.ReadAt(there, at); err != nil {
		return err
	}
	ours := binary.LittleEndian.Uint64(word) == uint64(at)
	if !ours && (int64(binary.LittleEndian.Uint64(word)) < first || !bytes.Equal(there, make([]byte, len(code)))) {
		return errors.New("the clock is read in another way than is known here")
	}
	if ours { // it may be called now
		_, err = memory.WriteAt(code[secondsAt:secondsAt+8], at+secondsAt)
		return err
	}
	if _, err := memory.WriteAt(code, at); err != nil {
		return err
	}
	_, err = memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(at)), pointer)
	return err
}

// secondsAt is where clockFunction has its number.
const secondsAt = 13

// clockFunction returns machine code for clock_gettime(clock, *time) that adds seconds to the
// clock of the day.
func clockFunction(seconds int64) []byte {
	code := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov $228, %eax: clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test %edi, %edi: CLOCK_REALTIME is 0
		0x75, 0x0d, // jne to ret
		0x48, 0xb9, // movabs $seconds, %rcx
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(seconds))
	return append(code,
		0x48, 0x01, 0x0e, // add %rcx, (%rsi)
		0xc3) // ret
}

// symbol returns the address of a symbol of a program.
func symbol(program, name string) (int64, error) {
	f, err := elf.Open(program)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil || f.Type != elf.ET_EXEC {
		return 0, fmt.Errorf("find %s in a program of %v: %w", name, f.Type, err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return int64(s.Value), nil
		}
	}
	return 0, fmt.Errorf("the program has no %s", name)
}

// pageOfFunctions returns where a process has the functions of the kernel.
func pageOfFunctions(pid int) (first, last int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), "[vdso]") {
			_, err := fmt.Sscanf(lines.Text(), "%x-%x ", &first, &last)
			return first, last, err
		}
	}
	return 0, 0, errors.New("the process has no functions of the kernel")
}
