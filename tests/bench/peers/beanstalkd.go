// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const beanstalkdConnections = 64

func beanstalkdPeer(name, durability string, flags ...string) *peer {
	return &peer{
		name:       name,
		durability: durability,
		version:    []string{"beanstalkd", "-v"},
		create:     func(s *server) [][]string { return [][]string{{"mkdir", s.data()}} },
		serve: func(s *server) []string {
			return append([]string{"beanstalkd", "-l", "127.0.0.1", "-p", strconv.Itoa(s.ports[0]), "-b", s.data()}, flags...)
		},
		open: func(address string, _ time.Duration) (client, error) {
			c := &beanstalkdClient{address: address, idle: make(chan *beanstalkdConn, beanstalkdConnections)}
			for i := 0; i < beanstalkdConnections; i++ {
				conn, err := dialBeanstalkd(address)
				if err != nil {
					c.close()
					return nil, err
				}
				c.idle <- conn
			}
			return c, nil
		},
	}
}

// beanstalkdConn speaks the text protocol itself, because the client library cannot send several commands before it reads
// the answers.
type beanstalkdConn struct {
	*bufio.ReadWriter
	conn net.Conn
}

func dialBeanstalkd(address string) (*beanstalkdConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &beanstalkdConn{bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), conn}, nil
}

// answer reads a line, which must have this first word, and returns the other words.
func (c *beanstalkdConn) answer(word string) ([]string, error) {
	line, err := c.ReadString('\n')
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != word {
		return nil, fmt.Errorf("beanstalkd: %q, not %s", line, word)
	}
	return words[1:], nil
}

type beanstalkdClient struct {
	address string
	idle    chan *beanstalkdConn
}

func (c *beanstalkdClient) close() {
	for len(c.idle) > 0 {
		(<-c.idle).conn.Close()
	}
}

// schedule rounds delays up to whole seconds, because the protocol has no smaller ones.
func (c *beanstalkdClient) schedule(jobs []job) ([]string, error) {
	conn := <-c.idle
	defer func() { c.idle <- conn }()
	for _, job := range jobs {
		delay := int64((time.Until(job.due) + time.Second - 1) / time.Second)
		fmt.Fprintf(conn, "put 0 %d %d %d\r\n", delay, int(lease.Seconds()), len(job.payload))
		_, _ = conn.Write(job.payload)
		_, _ = conn.WriteString("\r\n")
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	ids := make([]string, len(jobs))
	for i := range jobs {
		words, err := conn.answer("INSERTED")
		if err != nil {
			return nil, err
		}
		ids[i] = words[0]
	}
	return ids, nil
}

func (c *beanstalkdClient) cancel(ids []string) error {
	conn := <-c.idle
	defer func() { c.idle <- conn }()
	for _, id := range ids {
		fmt.Fprintf(conn, "delete %s\r\n", id)
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	for range ids {
		if _, err := conn.answer("DELETED"); err != nil {
			return err
		}
	}
	return nil
}

func (c *beanstalkdClient) consume(ctx context.Context, sink *sink) error {
	errs := make(chan error, beanstalkdConnections)
	for i := 0; i < beanstalkdConnections; i++ {
		conn, err := dialBeanstalkd(c.address)
		if err != nil {
			return err
		}
		defer conn.conn.Close()
		go func() { errs <- conn.serve(sink) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-errs:
		return err
	}
}

// serve sends each delete together with the next reserve.
func (c *beanstalkdConn) serve(sink *sink) error {
	_, _ = c.WriteString("reserve\r\n")
	for {
		if err := c.Flush(); err != nil {
			return err
		}
		words, err := c.answer("RESERVED")
		if err != nil {
			return err
		}
		size, _ := strconv.Atoi(words[1])
		body := make([]byte, size+2)
		if _, err := io.ReadFull(c, body); err != nil {
			return err
		}
		sink.delivered(body)
		fmt.Fprintf(c, "delete %s\r\nreserve\r\n", words[0])
		if err := c.Flush(); err != nil {
			return err
		}
		if _, err := c.answer("DELETED"); err != nil {
			return err
		}
		sink.acked(1)
	}
}
