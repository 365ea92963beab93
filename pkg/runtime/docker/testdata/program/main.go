// Program plays an agent in the tests: what it does, its arguments and its
// environment say.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return serve()
	}
	switch args[0] {
	case "health": // asks the one that serves
		_, port, err := net.SplitHostPort(os.Getenv("FLISK_LISTEN"))
		if err != nil {
			return err
		}
		resp, err := http.Get("http://" + net.JoinHostPort("127.0.0.1", port) + "/health")
		if err != nil {
			return err
		}
		fmt.Println("health:", resp.Status)
		return resp.Body.Close()
	case "exit": // with a code
		code, err := strconv.Atoi(args[1])
		if err == nil {
			os.Exit(code)
		}
		return err
	case "say": // one line a stream
		fmt.Fprintln(os.Stdout, args[1])
		fmt.Fprintln(os.Stderr, args[2])
	case "long": // one line of so many bytes, and one after it
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		fmt.Println(strings.Repeat("x", n))
		fmt.Println("after")
	case "who":
		fmt.Println(os.Getuid(), os.Getgid())
	case "write": // a file
		return os.WriteFile(args[1], []byte(args[2]), 0o600)
	default:
		return fmt.Errorf("what is %q?", args)
	}
	return nil
}

// serve answers until SIGTERM. LATE is how long it takes before it does, SLOW how
// long it takes to end; with STUBBORN it does not. CRASH is a code that it exits
// with at once.
func serve() error {
	if code, err := strconv.Atoi(os.Getenv("CRASH")); err == nil {
		os.Exit(code)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if late, err := time.ParseDuration(os.Getenv("LATE")); err == nil {
		<-time.After(late)
	}
	listener, err := net.Listen("tcp", os.Getenv("FLISK_LISTEN"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, os.Getenv("NAME"), r.Host, r.URL.Path)
	})
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	fmt.Println("ready")
	for range signals {
		fmt.Println("SIGTERM")
		if os.Getenv("STUBBORN") == "" {
			break
		}
	}
	if slow, err := time.ParseDuration(os.Getenv("SLOW")); err == nil {
		<-time.After(slow)
	}
	fmt.Println("bye")
	return server.Shutdown(context.Background())
}
