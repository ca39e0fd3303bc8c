// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"time"
)

// sizes are the bounds of one life of a peer.
type sizes struct {
	Seconds       int `json:"seconds"`         // of each row with a rate
	Pending       int `json:"pending"`         // messages at least, for memory, disk and the kill
	Burst         int `json:"burst"`           // messages due at one moment
	SteadyRate    int `json:"steady_rate"`     // accepted each second
	SteadySeconds int `json:"steady_seconds"`  // of it
	Settle        int `json:"settle_seconds"`  // before memory and disk are read
	WarmUp        int `json:"warm_up_seconds"` // of calls before the first row, of a peer with several copies
}

const (
	batchSize    = 1000
	batchWorkers = 8
	// No pending message is due during a life of a few minutes.
	pendingFrom  = time.Hour
	pendingSpan  = 24 * time.Hour
	fillMost     = 20 * time.Second
	burstMost    = 10 * time.Second // to accept it
	callMost     = 30 * time.Second
	deliveryMost = 120 * time.Second // after which a message is lost
)

// life is one peer from an empty directory to its end.
type life struct {
	peer    *peer
	sizes   sizes
	server  *server
	client  client
	random  *rand.Rand
	ids     []string
	warm    int // pending messages of the warm-up
	phase   int
	results map[string]float64
}

// run returns the figures of one life, by name; after an error, those from before it.
func run(p *peer, sizes sizes, parent string, seed int64) (map[string]float64, error) {
	folder, err := os.MkdirTemp(parent, "duetime-peers-")
	if err != nil {
		return nil, err
	}
	l := &life{peer: p, sizes: sizes, server: &server{folder: folder, ports: freePorts(portsEach)},
		random: rand.New(rand.NewSource(seed)), results: map[string]float64{}}
	setRunning(l.server)
	defer func() {
		if l.client != nil {
			l.client.close()
		}
		l.server.kill()
		setRunning(nil)
		os.RemoveAll(folder)
	}()
	if p.create != nil {
		for _, words := range p.create(l.server) {
			cmd, err := l.server.command(p.asUser, words)
			if err != nil {
				return nil, err
			}
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("%v: %w", words, err)
			}
		}
	}
	for _, step := range []func() error{l.start, l.accepts, l.fill, l.cancels, l.kill, l.burst, l.steady, l.failover} {
		if err := step(); err != nil {
			log, _ := os.ReadFile(folder + "/log")
			if len(log) > 2000 {
				log = log[len(log)-2000:]
			}
			return l.results, fmt.Errorf("%w\n%s", err, log)
		}
	}
	return l.results, nil
}

// start starts the server and waits until it answers.
func (l *life) start() error {
	cmd, err := l.server.command(l.peer.asUser, l.peer.serve(l.server))
	if err != nil {
		return err
	}
	// A signal ends the server that runs. After it nothing may start.
	runningMutex.Lock()
	if err = cmd.Start(); err == nil {
		l.server.cmd = cmd
	}
	runningMutex.Unlock()
	if err != nil {
		return err
	}
	return l.open(callMost)
}

// open makes a client as soon as the server answers, in place of the one before.
func (l *life) open(callMost time.Duration) (err error) {
	if l.client != nil {
		l.client.close()
	}
	for end := time.Now().Add(deliveryMost); ; time.Sleep(2 * time.Millisecond) {
		if l.client, err = l.peer.open(l.server.addresses(l.peer.members), callMost); err == nil {
			return nil
		}
		l.client = nil
		if time.Now().After(end) {
			return fmt.Errorf("%s does not answer: %w", l.peer.name, err)
		}
	}
}

// measured runs work, which returns its count of operations, and records the rate, and CPU and written bytes of each.
func (l *life) measured(name string, work func() (int, error)) error {
	written, server, own, began := l.server.written(), l.server.cpu(), ownCPU(), time.Now()
	count, err := work()
	if err != nil || count == 0 {
		return fmt.Errorf("%s: %d done: %w", name, count, err)
	}
	l.results[name] = float64(count) / time.Since(began).Seconds()
	l.recordCPU(name, count, server, own)
	l.recordWritten(name, count, written)
	return nil
}

func (l *life) recordWritten(name string, count int, before int64) {
	// Nothing, if the system does not tell it.
	if written := l.server.written() - before; written > 0 {
		l.results[name+" written each"] = float64(written) / float64(count)
	}
}

func (l *life) recordCPU(name string, count int, server, own time.Duration) {
	l.results[name+" server us"] = float64((l.server.cpu() - server).Microseconds()) / float64(count)
	l.results[name+" client us"] = float64((ownCPU() - own).Microseconds()) / float64(count)
}

// each calls work in this many goroutines until it returns 0 or an error, or the time is over, and returns the sum.
func each(workers int, most time.Duration, work func(random *rand.Rand) (int, error), random *rand.Rand) (int, error) {
	var group sync.WaitGroup
	var mutex sync.Mutex
	var sum int
	var first error
	end := time.Now().Add(most)
	for i := 0; i < workers; i++ {
		group.Add(1)
		go func(random *rand.Rand) {
			defer group.Done()
			for time.Now().Before(end) {
				count, err := work(random)
				mutex.Lock()
				sum += count
				if err != nil && first == nil {
					first = err
				}
				stop := first != nil || count == 0
				mutex.Unlock()
				if stop {
					return
				}
			}
		}(rand.New(rand.NewSource(random.Int63())))
	}
	group.Wait()
	return sum, first
}

// accept schedules messages that are due within a day, until there are `most` or the time is over.
func (l *life) accept(workers, batch, most int, limit time.Duration) (int, error) {
	var mutex sync.Mutex
	left := most
	return each(workers, limit, func(random *rand.Rand) (int, error) {
		mutex.Lock()
		size := batch
		if size > left {
			size = left
		}
		left -= size
		mutex.Unlock()
		if size == 0 {
			return 0, nil
		}
		jobs := make([]job, size)
		for i := range jobs {
			due := time.Now().Add(pendingFrom + time.Duration(random.Int63n(int64(pendingSpan))))
			jobs[i] = newJob(random, due, 0, 0)
		}
		ids, err := l.client.schedule(jobs)
		if err != nil {
			return 0, err
		}
		mutex.Lock()
		l.ids = append(l.ids, ids...)
		mutex.Unlock()
		return size, nil
	}, l.random)
}

const noLimit = int(^uint(0) >> 1)

func (l *life) accepts() error {
	if l.peer.leader != nil {
		// The copies find each other, and a JVM is slow until it has compiled its code.
		if _, err := l.accept(batchWorkers, 1, noLimit, time.Duration(l.sizes.WarmUp)*time.Second); err != nil {
			return err
		}
		l.warm, l.ids = len(l.ids), nil
	}
	time.Sleep(time.Duration(l.sizes.Settle) * time.Second)
	l.results["empty memory"], l.results["empty disk"] = float64(l.server.memory()), float64(l.server.disk())
	for _, row := range []struct {
		name           string
		workers, batch int
	}{{"accept x1", 1, 1}, {"accept x64", 64, 1}, {"accept x256", 256, 1}, {"accept batches", batchWorkers, batchSize}} {
		err := l.measured(row.name, func() (int, error) {
			return l.accept(row.workers, row.batch, noLimit, time.Duration(l.sizes.Seconds)*time.Second)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fill accepts up to the wanted number of pending messages and measures what one costs.
func (l *life) fill() error {
	if missing := l.sizes.Pending - len(l.ids); missing > 0 {
		if _, err := l.accept(batchWorkers, batchSize, missing, fillMost); err != nil {
			return err
		}
	}
	time.Sleep(time.Duration(l.sizes.Settle) * time.Second)
	pending := float64(len(l.ids))
	l.results["pending"] = pending
	l.results["memory each"] = (float64(l.server.memory()) - l.results["empty memory"]) / pending
	l.results["disk each"] = (float64(l.server.disk()) - l.results["empty disk"]) / pending
	return nil
}

// cancels cancels pending messages in random order.
func (l *life) cancels() error {
	l.random.Shuffle(len(l.ids), func(i, j int) { l.ids[i], l.ids[j] = l.ids[j], l.ids[i] })
	var mutex sync.Mutex
	cancel := func(workers, batch int) (int, error) {
		return each(workers, time.Duration(l.sizes.Seconds)*time.Second, func(*rand.Rand) (int, error) {
			mutex.Lock()
			size := batch
			if size > len(l.ids) {
				size = len(l.ids)
			}
			ids := l.ids[:size]
			l.ids = l.ids[size:]
			mutex.Unlock()
			if size == 0 {
				return 0, nil
			}
			return size, l.client.cancel(ids)
		}, l.random)
	}
	if err := l.measured("cancel x64", func() (int, error) { return cancel(64, 1) }); err != nil || l.peer.noBatchCancel {
		return err
	}
	// Not all of them, so that the kill and the burst find pending ones.
	keep := len(l.ids) / 4
	kept := l.ids[:keep]
	l.ids = l.ids[keep:]
	err := l.measured("cancel batches", func() (int, error) { return cancel(batchWorkers, batchSize) })
	l.ids = append(l.ids, kept...)
	return err
}

// consume delivers until all of the phase is acknowledged.
func (l *life) consume(sink *sink, until time.Time) error {
	ctx, stop := context.WithDeadline(context.Background(), until)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- l.client.consume(ctx, sink) }()
	for !sink.complete() {
		select {
		case err := <-ended:
			if err == nil {
				err = fmt.Errorf("%s delivered %d of %d in time, with %d acks", l.peer.name, sink.distinct, sink.expected, sink.acks)
			}
			return err
		case <-time.After(time.Millisecond):
		}
	}
	l.results["repeats"] += float64(sink.repeats)
	l.results["early"] += float64(sink.early)
	stop()
	return <-ended
}

// kill measures the time from a start after kill -9 to the first delivery of a message that became due meanwhile.
func (l *life) kill() error {
	l.phase++
	due := time.Now().Add(4 * time.Second)
	if _, err := l.client.schedule([]job{newJob(l.random, due, l.phase, 0)}); err != nil {
		return err
	}
	// Long enough for a peer that syncs each second.
	time.Sleep(2500 * time.Millisecond)
	l.client.close()
	l.client = nil
	l.server.kill()
	time.Sleep(time.Until(due.Add(1100 * time.Millisecond)))
	l.results["pending at kill"] = float64(l.warm + len(l.ids) + 1)
	began := time.Now()
	if err := l.start(); err != nil {
		return err
	}
	sink := newSink(l.phase, 1)
	if err := l.consume(sink, began.Add(deliveryMost)); err != nil {
		return err
	}
	delivered := float64(due.Truncate(time.Millisecond).Add(time.Millisecond).UnixMilli()) + sink.lateness[0]
	l.results["kill to first delivery ms"] = delivered - float64(began.UnixNano())/1e6
	// Copies may still fetch what they lack.
	time.Sleep(time.Duration(l.sizes.Settle) * time.Second)
	return nil
}

// burst has many messages due at one moment, each acknowledged.
func (l *life) burst() error {
	l.phase++
	count := l.sizes.Burst
	rate := l.results["accept batches"]
	if most := int(rate * burstMost.Seconds()); count > most {
		count = most / batchSize * batchSize
	}
	due := time.Now().Add(time.Duration(2*float64(count)/rate*1e9) + 3*time.Second).Truncate(time.Second).Add(-time.Millisecond)
	written := l.server.written()
	next := 0
	var mutex sync.Mutex
	_, err := each(batchWorkers, 2*burstMost, func(random *rand.Rand) (int, error) {
		mutex.Lock()
		first := next
		next += batchSize
		mutex.Unlock()
		var jobs []job
		for number := first; number < first+batchSize && number < count; number++ {
			jobs = append(jobs, newJob(random, due, l.phase, number))
		}
		if len(jobs) == 0 {
			return 0, nil
		}
		_, err := l.client.schedule(jobs)
		return len(jobs), err
	}, l.random)
	due = due.Add(time.Millisecond)
	if err != nil || time.Now().After(due) {
		return fmt.Errorf("the burst was not accepted in time: %v", err)
	}
	server, own := l.server.cpu(), ownCPU()
	sink := newSink(l.phase, count)
	began := make(chan struct{})
	go func() {
		time.Sleep(time.Until(due.Add(-100 * time.Millisecond)))
		server, own = l.server.cpu(), ownCPU()
		close(began)
	}()
	if err := l.consume(sink, due.Add(deliveryMost)); err != nil {
		return err
	}
	<-began
	l.results["burst size"] = float64(count)
	l.results["burst"] = float64(count) / (time.Since(due).Seconds())
	l.recordCPU("burst", count, server, own)
	l.recordWritten("burst", count, written)
	l.recordLateness("burst", sink)
	return nil
}

// steady accepts at an even rate. Each message is due 2.5 to 3.5 s later, at any fraction of a second.
func (l *life) steady() error {
	l.phase++
	count := l.sizes.SteadyRate * l.sizes.SteadySeconds
	sink := newSink(l.phase, count)
	numbers := make(chan int, count)
	server, own, began := l.server.cpu(), ownCPU(), time.Now()
	go func() {
		for sent := 0; sent < count; time.Sleep(5 * time.Millisecond) {
			for due := int(time.Since(began).Seconds() * float64(l.sizes.SteadyRate)); sent < due && sent < count; sent++ {
				numbers <- sent
			}
		}
		close(numbers)
	}()
	accepted := make(chan error, 1)
	go func() {
		_, err := each(64, deliveryMost, func(random *rand.Rand) (int, error) {
			number, more := <-numbers
			if !more {
				return 0, nil
			}
			due := time.Now().Add(2500*time.Millisecond + time.Duration(random.Int63n(int64(time.Second))))
			_, err := l.client.schedule([]job{newJob(random, due, l.phase, number)})
			return 1, err
		}, l.random)
		accepted <- err
	}()
	err := l.consume(sink, began.Add(deliveryMost))
	if acceptErr := <-accepted; acceptErr != nil {
		err = acceptErr
	}
	if err != nil {
		return err
	}
	l.recordCPU("steady", count, server, own)
	l.recordLateness("steady", sink)
	return nil
}

func (l *life) recordLateness(name string, sink *sink) {
	for _, percent := range []float64{50, 99, 99.9} {
		l.results[fmt.Sprintf("%s p%g ms", name, percent)] = percentile(sink.lateness, percent)
	}
}
