package transport

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/internal/proc"
)

// BenchmarkStream sends 1 MiB entries over a stream of raft and reads the short answer
// of each, 16 behind, as raft does when it replicates. The figure is the CPU time of
// both ends together.
func BenchmarkStream(b *testing.B) {
	for name, s := range map[string]string{"plain": "", "secret": secret} {
		b.Run(name, func(b *testing.B) {
			n1, n2 := benchNode(b, "n1", s), benchNode(b, "n2", s)
			l := n2.Streams()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				entry, answer := make([]byte, 1<<20), make([]byte, 16)
				for {
					if _, err := io.ReadFull(c, entry); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
			c, err := n1.Streams().Dial(raft.ServerAddress(n2.Address()), 0)
			if err != nil {
				b.Fatal(err)
			}
			entry, answer := make([]byte, 1<<20), make([]byte, 16)
			binary.LittleEndian.PutUint64(entry, 1)
			b.SetBytes(int64(len(entry)))
			b.ResetTimer()
			before := proc.CPUTime()
			answered := make(chan error, 1)
			flight := make(chan struct{}, 16)
			go func() {
				for range b.N {
					if _, err := io.ReadFull(c, answer); err != nil {
						answered <- err
						return
					}
					<-flight
				}
				answered <- nil
			}()
			for range b.N {
				flight <- struct{}{}
				if _, err := c.Write(entry); err != nil {
					b.Fatal(err)
				}
			}
			if err := <-answered; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((proc.CPUTime()-before).Microseconds())/float64(b.N), "cpu-us/MiB")
		})
	}
}

// BenchmarkConnect opens and closes connections.
func BenchmarkConnect(b *testing.B) {
	for name, s := range map[string]string{"plain": "", "secret": secret} {
		b.Run(name, func(b *testing.B) {
			n1, n2 := benchNode(b, "n1", s), benchNode(b, "n2", s)
			l := n2.Streams()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Close()
				}
			}()
			before := proc.CPUTime()
			b.ResetTimer()
			for range b.N {
				c, err := n1.Streams().Dial(raft.ServerAddress(n2.Address()), 0)
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
			b.ReportMetric(float64((proc.CPUTime()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

func benchNode(b *testing.B, name, secret string) *Transport {
	b.Helper()
	n, err := Listen(Options{Bind: "127.0.0.1:0", Secret: secret, Self: func() Hello { return Hello{Name: name} }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.Close() })
	return n
}
