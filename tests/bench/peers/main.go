// SPDX-License-Identifier: Apache-2.0

// peers runs the same work on duetime and on its peers, by turns, and writes a table, a plot and all figures.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	runningMutex sync.Mutex
	running      *server
)

// setRunning remembers the server that a signal must end.
func setRunning(s *server) {
	runningMutex.Lock()
	defer runningMutex.Unlock()
	running = s
}

func endAtSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	<-signals
	runningMutex.Lock()
	if running != nil {
		running.kill()
		os.RemoveAll(running.folder)
	}
	os.Exit(130)
}

// syncTime returns percentiles of an append of 4 KiB and its fdatasync, in ms.
func syncTime(folder string) (p50, p99 float64, err error) {
	file, err := os.CreateTemp(folder, "duetime-peers-sync-")
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var times []float64
	for i := 0; i < 500; i++ {
		began := time.Now()
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return 0, 0, err
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return 0, 0, err
		}
		times = append(times, time.Since(began).Seconds()*1e3)
	}
	return percentile(times, 50), percentile(times, 99), nil
}

// fileSystem returns the type of the file system that holds the folder.
func fileSystem(folder string) string {
	folder, _ = filepath.EvalSymlinks(folder)
	mounts, _ := os.ReadFile("/proc/mounts")
	longest, kind := "", "unknown"
	for _, line := range strings.Split(string(mounts), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 2 && strings.HasPrefix(folder+"/", strings.TrimSuffix(fields[1], "/")+"/") && len(fields[1]) >= len(longest) {
			longest, kind = fields[1], fields[2]
		}
	}
	return kind
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "model name") {
			return strings.TrimSpace(line[strings.Index(line, ":")+1:])
		}
	}
	return runtime.GOARCH
}

func head(folder string, sizes sizes, rounds int) ([]string, error) {
	p50, p99, err := syncTime(folder)
	if err != nil {
		return nil, err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return []string{
		fmt.Sprintf("%s, %s: %d cores (%s), data on %s; append of 4 KiB and fdatasync: p50 %.2f ms, p99 %.2f ms; load before: %s.",
			time.Now().UTC().Format("2006-01-02 15:04"), runtime.Version(), runtime.NumCPU(), processor(), fileSystem(folder), p50, p99,
			strings.Fields(string(load) + " -")[0]),
		fmt.Sprintf("Medians of %d rounds, by turns; each round begins with an empty directory. The client is this program, on the same cores; "+
			"x64 has 64 calls in flight, batches have %d messages and %d calls in flight, %d s each.", rounds, batchSize, batchWorkers, sizes.Seconds),
		fmt.Sprintf("Payload %d bytes, half of it random; due times spread over 24 h; the burst is due at one moment; steady: %d each second for %d s, "+
			"one by one, due 2.5 to 3.5 s later.", payloadBytes, sizes.SteadyRate, sizes.SteadySeconds),
		fmt.Sprintf("Redis and PostgreSQL are asked every %s by 2 consumers; PostgreSQL and beanstalkd have %d connections; "+
			"beanstalkd and RocketMQ know whole seconds only; RocketMQ has 64 calls at once in place of each batch.",
			pollEvery, beanstalkdConnections),
	}, nil
}

func main() {
	if err := mainError(); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func mainError() error {
	size := sizes{Settle: 3}
	duetimed := flag.String("duetimed", "build/release/server/duetimed", "the daemon")
	natsServer := flag.String("nats-server", "nats-server", "the NATS server")
	rocketJars := flag.String("rocketmq-jars", "build/peers/rocketmq", "the folder with RocketMQ's jars")
	cell := flag.String("cell", "tests/bench/peers/cell.sh", "the script that starts a cell")
	replicated := flag.Bool("replicated", false, "peers with several copies of each message, beside a single duetime")
	out := flag.String("out", "build/peers", "where results.json, results.md and results.svg go")
	folder := flag.String("dir", "/var/tmp", "where the servers' data go: on a real disk, open to the user postgres")
	only := flag.String("only", "", "peers whose names contain one of these words, separated by commas; empty: all")
	quick := flag.Bool("quick", false, "a small round, to see that everything works")
	rounds := flag.Int("rounds", 3, "medians are of so many")
	flag.IntVar(&size.Seconds, "seconds", 3, "of each row with a rate")
	flag.IntVar(&size.Pending, "pending", 500000, "messages for memory, disk and the kill; more if a peer accepted more before")
	flag.IntVar(&size.Burst, "burst", 300000, "messages due at one moment; fewer for a peer that cannot accept them within 10 s")
	flag.IntVar(&size.SteadyRate, "rate", 2000, "messages each second of the steady load")
	flag.IntVar(&size.SteadySeconds, "steady", 10, "seconds of the steady load")
	flag.IntVar(&size.WarmUp, "warm-up", 15, "seconds of calls before the first row, of peers with several copies")
	flag.Parse()
	if *quick {
		size, *rounds = sizes{Seconds: 1, Pending: 20000, Burst: 5000, SteadyRate: 500, SteadySeconds: 2, Settle: 1, WarmUp: 1}, 1
	}
	for _, program := range []*string{duetimed, cell} {
		found, err := filepath.Abs(*program)
		if err != nil {
			return err
		}
		*program = found
	}
	all := singlePeers(*duetimed, *natsServer, *rocketJars)
	if *replicated {
		all = []*peer{duetimePeer(*duetimed), cellPeer(*duetimed, *cell), redisReplicatedPeer(), natsReplicatedPeer(*natsServer)}
	}
	peers, rows := installed(all, *only)
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	text, err := head(*folder, size, *rounds)
	if err != nil {
		return err
	}
	if *replicated {
		text = append(text, replicatedHead)
	}
	fmt.Println(strings.Join(text, "\n"))
	go endAtSignal()
	failed := 0
	for round := 0; round < *rounds; round++ {
		for i := range peers {
			// Each round begins with another peer.
			next := (i + round) % len(peers)
			if !rows[next].add(peers[next], round+1, size, *folder) {
				failed++
			}
		}
		for _, row := range rows {
			row.summarize()
		}
		// After each round, so that an interrupted run is not lost.
		if err := write(*out, text, size, rows); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s\nwritten to %s: results.md, results.json, results.svg\n", report(rows, text), *out)
	if failed > 0 {
		return fmt.Errorf("%d runs failed", failed)
	}
	return nil
}

func singlePeers(duetimed, natsServer, rocketJars string) []*peer {
	return []*peer{
		duetimePeer(duetimed),
		redisPeer("always", "synced before OK"),
		redisPipelinedPeer(),
		postgresPeer(),
		beanstalkdPeer("beanstalkd, sync always", "synced before OK", "-f0"),
		natsPeer(natsServer),
		rocketmqPeer(rocketJars),
		redisPeer("everysec", "synced within 1 s after OK"),
		beanstalkdPeer("beanstalkd, default", "synced within 50 ms after OK"),
	}
}

// installed returns the peers that are wanted and can run, and a row for each.
func installed(all []*peer, only string) (peers []*peer, rows []*row) {
	for _, p := range all {
		if !named(p.name, only) {
			continue
		}
		version := versionOf(p)
		if version == "" {
			fmt.Printf("%s is left out: not found by %q\n", p.name, strings.Join(p.version, " "))
			continue
		}
		peers = append(peers, p)
		rows = append(rows, &row{Peer: p.name, Durability: p.durability, Version: version})
	}
	return peers, rows
}

// add runs one life of the peer, and returns whether it came to its end.
func (r *row) add(p *peer, round int, size sizes, folder string) bool {
	began := time.Now()
	results, err := run(p, size, folder, int64(round))
	if len(results) > 0 {
		r.Runs = append(r.Runs, results)
	}
	if err != nil {
		r.Errors = append(r.Errors, err.Error())
		fmt.Printf("round %d, %s failed: %v\n", round, p.name, err)
		return false
	}
	fmt.Printf("round %d, %s: %.0f s\n", round, p.name, time.Since(began).Seconds())
	return true
}

func named(name, only string) bool {
	for _, word := range strings.Split(strings.ToLower(only), ",") {
		if strings.Contains(strings.ToLower(name), word) {
			return true
		}
	}
	return false
}

func write(out string, head []string, size sizes, rows []*row) error {
	for _, row := range rows {
		for _, run := range append(row.Runs, row.Medians) {
			for name, value := range run {
				if math.IsNaN(value) {
					delete(run, name) // JSON has no NaN.
				}
			}
		}
	}
	data, err := json.MarshalIndent(map[string]interface{}{"head": head, "sizes": size, "peers": rows}, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"results.json": string(data) + "\n", "results.md": report(rows, head),
		"results.svg": plot(rows, plotted)} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
