package collectd

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/services/input"
)

// packet is a packet being put together.
type packet []byte

func (p packet) part(kind uint16, body ...byte) packet {
	p = binary.BigEndian.AppendUint16(p, kind)
	p = binary.BigEndian.AppendUint16(p, uint16(len(body)+headerBytes))
	return append(p, body...)
}

func (p packet) text(kind uint16, s string) packet { return p.part(kind, append([]byte(s), 0)...) }

func (p packet) number(kind uint16, n uint64) packet {
	return p.part(kind, binary.BigEndian.AppendUint64(nil, n)...)
}

// values appends a list: float64 is a gauge, int64 derived, uint64 a counter.
func (p packet) values(list ...any) packet {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(list)))
	var numbers []byte
	for _, v := range list {
		switch v := v.(type) {
		case float64:
			body, numbers = append(body, kindGauge), binary.LittleEndian.AppendUint64(numbers, math.Float64bits(v))
		case int64:
			body, numbers = append(body, kindDerive), binary.BigEndian.AppendUint64(numbers, uint64(v))
		case uint64:
			body, numbers = append(body, kindCounter), binary.BigEndian.AppendUint64(numbers, v)
		}
	}
	return p.part(partValues, append(body, numbers...)...)
}

// signed returns p signed by a user.
func (p packet) signed(user, password string) packet {
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write([]byte(user))
	mac.Write(p)
	return append(packet(nil).part(partSigned, append(mac.Sum(nil), user...)...), p...)
}

// encrypted returns p encrypted by a user.
func (p packet) encrypted(user, password string) packet {
	iv := []byte("0123456789abcdef")
	sum := sha1.Sum(p)
	body := binary.BigEndian.AppendUint16(nil, uint16(len(user)))
	body = append(append(body, user...), iv...)
	return packet(nil).part(partEncrypted, append(body, outputFeedback(sha256.Sum256([]byte(password)), iv, append(sum[:], p...))...)...)
}

func show(points []input.Point) string {
	var lines []string
	for _, p := range points {
		p.Tags.Sort()
		s := p.Measurement
		for _, t := range p.Tags {
			s += "," + t.Key + "=" + t.Value
		}
		for i, f := range p.Fields {
			s += fmt.Sprintf("%c%s=%v", " ,"[min(i, 1)], f.Key, f.Value)
		}
		lines = append(lines, fmt.Sprintf("%s %d", s, p.Time))
	}
	return strings.Join(lines, "|")
}

var someTypes = Types{"load": {"shortterm", "midterm", "longterm"}, "gauge": {"value"}, "if_octets": {"rx", "tx"}}

var plain = packet(nil).text(partHost, "h").text(partPlugin, "load").text(partType, "load").number(partTime, 10).values(0.5, 1.5, 2.5)

func TestDecode(t *testing.T) {
	f := func(split bool, p packet, want string, wantErr error) {
		t.Helper()
		d := decoder{types: someTypes, split: split}
		points, err := d.decode(p, time.Unix(1, 5))
		if got := show(points); got != want || !errors.Is(err, wantErr) {
			t.Errorf("%q: %s %v, want %s %v", p, got, err, want, wantErr)
		}
	}
	f(true, plain, "load_shortterm,host=h,type=load value=0.5 10000000000|load_midterm,host=h,type=load value=1.5 10000000000|load_longterm,host=h,type=load value=2.5 10000000000", nil)
	f(false, plain, "load,host=h,type=load shortterm=0.5,midterm=1.5,longterm=2.5 10000000000", nil)
	two := packet(nil).text(partHost, "h").number(partTimeHigh, 3<<30|1<<29).text(partPlugin, "interface").text(partPluginInstance, "eth0").
		text(partType, "if_octets").values(uint64(7), int64(-8)).text(partTypeInstance, "x").text(partType, "gauge").values(math.NaN()).values(1.0)
	f(false, two, "interface,host=h,instance=eth0,type=if_octets rx=7,tx=-8 3500000000|interface,host=h,instance=eth0,type=gauge,type_instance=x value=1 3500000000", nil)
	f(true, packet(nil).text(partPlugin, "p").values(1.0), "p_value value=1 1000000005", nil)
	f(true, packet(nil).text(partPlugin, "p").text(partType, "gauge").values(1.0, 2.0), "p_0,type=gauge value=1 1000000005|p_1,type=gauge value=2 1000000005", nil)
	f(false, packet(nil).text(partPlugin, "p").values(1.0, 2.0), "p 0=1,1=2 1000000005", nil)
	f(true, packet(nil).number(0x0007, 10).number(0x0009, 10).text(0x0100, "said").number(0x0101, 1), "", nil) // not for us
	f(true, nil, "", nil)
	for n := 1; n < len(plain); n++ { // every cut
		d := decoder{types: someTypes}
		if points, err := d.decode(plain[:n], time.Now()); len(points) > 0 || err == nil && n != 6 && n != 15 && n != 24 && n != 36 {
			t.Errorf("%d bytes: %s %v", n, show(points), err)
		}
	}
	f(true, packet(nil).part(partHost, 'h'), "", errMalformed)
	f(true, packet(nil).part(partHost), "", errMalformed)
	f(true, packet(nil).part(partTime, 1, 2), "", errMalformed)
	f(true, packet(nil).number(partTime, 1<<63), "", errMalformed)
	f(true, packet(nil).number(partTimeHigh, 1<<64-1), "", errMalformed)
	f(true, packet(nil).part(partValues, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0), "", errMalformed)
	f(true, packet(nil).part(partValues, 255, 255), "", errMalformed)
	f(true, packet{0, 0, 0, 3}, "", errMalformed)
	f(true, packet{0, 0, 0, 5}, "", errMalformed)
	f(false, append(append(packet{}, plain...), 1), "load,host=h,type=load shortterm=0.5,midterm=1.5,longterm=2.5 10000000000", errMalformed)
}

func TestProtection(t *testing.T) {
	users := map[string]string{"alice": "sesame", "bob": "secret"}
	f := func(level Level, p packet, taken bool) {
		t.Helper()
		d := decoder{types: someTypes, users: users, level: level}
		points, err := d.decode(p, time.Now())
		if (len(points) == 1) != taken || len(points) == 0 && err == nil {
			t.Errorf("level %d: %s %v", level, show(points), err)
		}
	}
	signed, encrypted := plain.signed("alice", "sesame"), plain.encrypted("bob", "secret")
	for _, level := range []Level{None, Sign, Encrypt} {
		f(level, plain, level == None)
		f(level, signed, level <= Sign)
		f(level, plain.signed("alice", "wrong"), level == None)
		f(level, plain.signed("nobody", "sesame"), level == None)
		f(level, encrypted, true)
		f(level, plain.encrypted("bob", "wrong"), false)
		f(level, plain.encrypted("nobody", "secret"), false)
		f(level, encrypted.encrypted("bob", "secret"), false) // one in another
	}
	f(Sign, append(append(packet{}, plain...), signed...)[:len(plain)+40], false) // a signature that is cut
	// What stands in front of the signature is not signed.
	forged := append(packet(nil).text(partPlugin, "forged").values(1.0), signed...)
	d := decoder{types: someTypes, users: users, level: Sign}
	if points, _ := d.decode(forged, time.Now()); strings.Contains(show(points), "forged") {
		t.Error(show(points))
	}
	for i := range signed { // every flipped bit
		bad := append(packet(nil), signed...)
		bad[i] ^= 1
		if points, _ := d.decode(bad, time.Now()); len(points) > 0 {
			t.Errorf("byte %d changed: %s", i, show(points))
		}
	}
	for i := range encrypted {
		bad := append(packet(nil), encrypted...)
		bad[i] ^= 1
		if points, _ := d.decode(bad, time.Now()); len(points) > 0 {
			t.Errorf("byte %d changed: %s", i, show(points))
		}
	}
}

// TestOutputFeedback is F.4.5 of NIST SP 800-38A.
func TestOutputFeedback(t *testing.T) {
	bytes := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	key := [32]byte(bytes("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"))
	got := outputFeedback(key, bytes("000102030405060708090a0b0c0d0e0f"), bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c8"))
	if hex.EncodeToString(got) != "dc7e84bfda79164b7ecd8486985d38604febdc6740d20b3ac88f6ad82a4fb08d71ab" {
		t.Errorf("%x", got)
	}
}

func TestReadTypes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("a.db", "# types\n\nload\tshortterm:GAUGE:0:5000, midterm:GAUGE:0:5000,longterm:GAUGE:0:5000\n")
	write("sub/b.db", "gauge value:GAUGE:U:U\n")
	// A file that is none of them is told, and nothing of it is taken.
	write("java/collectd-api.jar", "x v:G:0:1\nPK\x03\x04\x9b\xff v\n")
	var skipped []string
	skip := func(err error) { skipped = append(skipped, err.Error()) }
	types, err := ReadTypes(dir, skip)
	if len(skipped) != 1 || !strings.HasSuffix(skipped[0], `collectd-api.jar: line 2: "v" is not name:kind:min:max`) {
		t.Errorf("skipped %q", skipped)
	}
	if err != nil || fmt.Sprint(types) != "map[gauge:[value] load:[shortterm midterm longterm]]" {
		t.Error(types, err)
	}
	for want, text := range map[string]string{
		"line 2: a type without": "a b:GAUGE:0:1\nx\n", "is not name:kind": "x a:GAUGE:0\n", "occurs twice": "x a:G:0:1,a:G:0:1\n",
	} {
		if _, err := ReadTypes(write("bad/bad.db", text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := ReadTypes(filepath.Join(dir, "nosuch"), nil); err == nil {
		t.Error("a file that is not there is read")
	}
	if types, err := ReadTypes("/usr/share/collectd/types.db", nil); err == nil && len(types["if_octets"]) != 2 {
		t.Errorf("collectd's own: %v", types["if_octets"])
	}
}

func TestReadUsers(t *testing.T) {
	users, err := readUsers(strings.NewReader("# users\nalice: se:same \n\nbob:secret"))
	if err != nil || fmt.Sprint(users) != "map[alice:se:same bob:secret]" {
		t.Error(users, err)
	}
	for _, bad := range []string{"sesame", "alice:", ":sesame"} {
		if _, err := readUsers(strings.NewReader(bad)); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ReadUsers("/nosuch"); err == nil {
		t.Error("a file that is not there is read")
	}
}

// FuzzDecode holds that no packet makes the decoder panic, and that every point
// has a number in each field.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(plain), true)
	f.Add([]byte(plain.signed("alice", "sesame")), false)
	f.Add([]byte(plain.encrypted("alice", "sesame")), false)
	f.Fuzz(func(t *testing.T, p []byte, split bool) {
		d := decoder{types: someTypes, users: map[string]string{"alice": "sesame"}, split: split}
		points, _ := d.decode(p, time.Unix(1, 0))
		for _, point := range points {
			if len(point.Fields) == 0 {
				t.Errorf("%+v", point)
			}
			for _, field := range point.Fields {
				if field.Key == "" || math.IsNaN(field.Value) {
					t.Errorf("%+v", point)
				}
			}
		}
	})
}
