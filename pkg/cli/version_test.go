package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.3.1"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	if v := versionOf(info); v.Version != "v0.3.1" || v.Revision != "0123abcd" || v.Time != "2026-01-02T03:04:05Z" || !v.Modified || v.Contract != 1 {
		t.Errorf("got %+v", v)
	}
	for _, info := range []*debug.BuildInfo{nil, {}, {Main: debug.Module{Version: "(devel)"}}} {
		if v := versionOf(info); v.Version != "devel" || v.Revision != "" || v.Modified {
			t.Errorf("%+v became %+v", info, v)
		}
	}
}
