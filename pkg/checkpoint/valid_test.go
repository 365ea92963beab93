package checkpoint

import (
	"encoding/json"
	"strings"
	"testing"
)

// sameVerdict holds validJSON against the standard library.
func sameVerdict(t *testing.T, value []byte) {
	t.Helper()
	if got, want := validJSON(value), json.Valid(value) && depth(value) <= MaxDepth; got != want {
		t.Errorf("%.200q is valid: %v, want %v", value, got, want)
	}
}

var jsonSamples = []string{
	``, ` `, `1`, ` "a" `, "\t\r\n{}\n", `null`, `true`, `false`, `nul`, `nulll`, `True`, `{}`, `[]`, `[`, `]`, `{`, `}`, `[}`, `{]`, `[]]`, `[1,]`, `[,1]`, `[1 2]`, `[1,,2]`,
	`{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{1:1}`, `{"a":1 "b":2}`, `{"a" : [ 1 , {"b" : null } ] }`, `"a" "b"`, `1,2`,
	`0`, `-`, `-0`, `00`, `01`, `-01`, `1.`, `.1`, `1.0`, `1.0.0`, `1e`, `1e+`, `1e+1`, `1E-01`, `1e+-1`, `+1`, `0x1`, `1e1.5`, `-a`, `123456789012345678901234567890`, `Infinity`, `NaN`,
	`"`, `"a`, `"\`, `"\"`, `"\\"`, `"\\\"`, `"\n\t\r\b\f\/\""`, `"\a"`, `"\'"`, `"\u"`, `"\u12"`, `"\u123"`, `"\u1234"`, `"\uabCD"`, `"\uabcg"`, `"\u@000"`, `"\ud800"`, `"\U1234"`,
	"\"\x00\"", "\"\x1f\"", "\"\x20\"", "\"\x7f\"", "\"\x80\xff\"", "\"ä€😀\"", "\"a\nb\"", "\xef\xbb\xbf1", "\u00a01", "\"12345678\x01\"", "\"\xa2\x80\xdc\xa0\x9f123\"",
	`"0123456789"`, `"01234567"`, `"0123456"`, `"01234567\n89"`, `"0123\\567"`, `"!#[]!#[]!#[]"`,
}

func TestValidJSON(t *testing.T) {
	t.Parallel()
	for _, value := range jsonSamples {
		sameVerdict(t, []byte(value))
	}
	// Every byte at every place of a word, in a string and as its end.
	for c := range 256 {
		for at := range 17 {
			value := []byte(`"` + strings.Repeat("x", 17) + `"`)
			value[1+at] = byte(c)
			sameVerdict(t, value)
			sameVerdict(t, value[:2+at])
		}
	}
	for _, deep := range []int{1, 2, MaxDepth - 1, MaxDepth, MaxDepth + 1, 9_999, 10_001} {
		sameVerdict(t, nested(deep))
		sameVerdict(t, nested(deep)[:deep])
	}
}

func FuzzValidJSON(f *testing.F) {
	for _, value := range jsonSamples {
		f.Add([]byte(value))
	}
	f.Fuzz(sameVerdict)
}

func BenchmarkValidJSON(b *testing.B) {
	for name, value := range map[string][]byte{
		"text": quoted(strings.Repeat("r", 1022)),
		"list": []byte(`[` + strings.Repeat(`{"id": 12, "name": "somebody"},`, 32) + `1]`),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !validJSON(value) {
					b.Fatal("not valid")
				}
			}
		})
		b.Run(name+"/floor", func(b *testing.B) {
			for b.Loop() {
				if depth(value) > MaxDepth || !json.Valid(value) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
