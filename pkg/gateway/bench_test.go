package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// BenchmarkHop sends the same turn through this gateway and through a bare
// ReverseProxy with the same transport settings, in turns, so that whatever else
// the machine does hits both. The figure to watch is the ratio of the medians;
// at most 1.5 is wanted.
func BenchmarkHop(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := backend(b, "bot-1", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `{"reply":"ok"}`)
			})
			bare := httptest.NewServer(bareProxy(e))
			defer bare.Close()
			s := serve(b, Options{}, routes(e))
			urls := []string{bare.URL, "http://" + s.addr}
			took := make([][]time.Duration, len(urls))
			body := strings.Repeat("x", size)
			send := func(i int) {
				r, err := http.NewRequest("POST", urls[i]+"/api/bot/turn", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				r.Host = host
				r.Header.Set(turn.HeaderSession, "s1")
				begun := time.Now()
				res, err := s.client.Do(r)
				if err != nil || res.StatusCode != http.StatusOK {
					b.Fatal(res, err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				took[i] = append(took[i], time.Since(begun))
			}
			for b.Loop() {
				for i := range urls {
					send(i)
				}
			}
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Microseconds())
			}
			bareTook, ours := median(took[0]), median(took[1])
			b.ReportMetric(bareTook, "bare-p50-µs")
			b.ReportMetric(ours, "p50-µs")
			b.ReportMetric(ours/bareTook, "ratio")
			b.ReportMetric(0, "ns/op") // of a pair: means nothing
		})
	}
}

func bareProxy(e stack.Endpoint) http.Handler {
	transport := newReplica(e, func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}).transport
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		BufferPool:    &buffers{},
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", "agent"
			pr.SetXForwarded()
		},
	}
}
