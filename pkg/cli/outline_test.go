package cli

import "testing"

func TestReadable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"two\nlines"`:                        "two\nlines",
		`17.50`:                               "17.50",
		`null`:                                "null",
		`{}`:                                  "(empty)",
		`{"b":"x","a":1e3}`:                   "b: x\na: 1e3",
		`["x",["y",{"z":true}],[]]`:           "- x\n- - y\n  - z: true\n- (empty)",
		`{"list":[1,2],"in":{"deep":"a\nb"}}`: "list:\n  - 1\n  - 2\nin:\n  deep: a\n    b",
		`{"` + "a\\nb" + `":"<&>"}`:           "a b: <&>",
		`not json`:                            "not json",
	} {
		if got := readable([]byte(value)); got != want {
			t.Errorf("readable(%s) is\n%s\nwant\n%s", value, got, want)
		}
	}
}
