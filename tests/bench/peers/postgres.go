// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresProgram finds a program of the server, which Debian keeps out of the search path.
func postgresProgram(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return found[len(found)-1]
	}
	program, _ := exec.LookPath(name)
	return program
}

func postgresPeer() *peer {
	return &peer{
		name:       "PostgreSQL, SKIP LOCKED",
		durability: "synced before OK",
		version:    []string{postgresProgram("postgres"), "--version"},
		asUser:     "postgres",
		create: func(s *server) [][]string {
			return [][]string{{postgresProgram("initdb"), "--pgdata", s.data(), "--auth", "trust", "--username", "peers",
				"--encoding", "UTF8", "--no-locale"}}
		},
		serve: func(s *server) []string {
			return []string{postgresProgram("postgres"), "-D", s.data(), "-p", strconv.Itoa(s.ports[0]),
				"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
		},
		open: func(address string, _ time.Duration) (client, error) {
			pool, err := pgxpool.New(context.Background(), "postgres://peers@"+address+"/postgres?sslmode=disable&pool_max_conns=64")
			if err != nil {
				return nil, err
			}
			// The lease moves `due`, as pgmq does it, so one index serves both.
			_, err = pool.Exec(context.Background(), `
				CREATE TABLE IF NOT EXISTS jobs (
				  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
				  due timestamptz NOT NULL,
				  attempts int NOT NULL DEFAULT 0,
				  payload bytea NOT NULL);
				CREATE INDEX IF NOT EXISTS jobs_due ON jobs (due)`)
			if err != nil {
				pool.Close()
				return nil, err
			}
			return &postgresClient{pool}, nil
		},
	}
}

type postgresClient struct{ *pgxpool.Pool }

func (c *postgresClient) close() { c.Close() }

func (c *postgresClient) schedule(jobs []job) ([]string, error) {
	var rows pgx.Rows
	if len(jobs) == 1 {
		rows, _ = c.Query(context.Background(), "INSERT INTO jobs (due, payload) VALUES ($1, $2) RETURNING id",
			jobs[0].due, jobs[0].payload)
	} else {
		due := make([]time.Time, len(jobs))
		payloads := make([][]byte, len(jobs))
		for i, job := range jobs {
			due[i], payloads[i] = job.due, job.payload
		}
		rows, _ = c.Query(context.Background(),
			"INSERT INTO jobs (due, payload) SELECT * FROM unnest($1::timestamptz[], $2::bytea[]) RETURNING id", due, payloads)
	}
	// An error of the query is also that of its rows.
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var id int64
		err := row.Scan(&id)
		return strconv.FormatInt(id, 10), err
	})
}

func (c *postgresClient) cancel(ids []string) error {
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i], _ = strconv.ParseInt(id, 10, 64)
	}
	tag, err := c.Exec(context.Background(), "DELETE FROM jobs WHERE id = ANY($1) AND attempts = 0", numbers)
	if err == nil && tag.RowsAffected() != int64(len(ids)) {
		err = fmt.Errorf("cancelled %d of %d", tag.RowsAffected(), len(ids))
	}
	return err
}

func (c *postgresClient) consume(ctx context.Context, sink *sink) error {
	return poll(ctx, 2, func() (int, error) {
		rows, _ := c.Query(context.Background(), `
			UPDATE jobs SET due = now() + $2::interval, attempts = attempts + 1
			WHERE id = ANY(ARRAY(SELECT id FROM jobs WHERE due <= now() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED))
			RETURNING id, payload`, takeMost, lease)
		var ids []int64
		var id int64
		var payload []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
			ids = append(ids, id)
			sink.delivered(payload)
			return nil
		})
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		if _, err = c.Exec(context.Background(), "DELETE FROM jobs WHERE id = ANY($1)", ids); err == nil {
			sink.acked(len(ids))
		}
		return len(ids), err
	})
}
