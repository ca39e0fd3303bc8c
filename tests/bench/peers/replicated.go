// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
	"github.com/redis/go-redis/v9"
)

// inMemory is what each peer with several copies promises at least. A cell waits for all brokers that are in sync.
const inMemory = "in the memory of 2 of 3 machines"

// together returns the command of a shell that runs several programs until it is killed.
func together(programs [][]string) []string {
	script := ""
	for _, words := range programs {
		script += "'" + strings.Join(words, "' '") + "' & "
	}
	return []string{"bash", "-c", script + "wait"}
}

// cellPeer is two members on three brokers. The script starts all of them.
func cellPeer(program, script string) *peer {
	return &peer{
		name:       "duetime, a cell",
		durability: inMemory,
		version:    []string{script, "--version", program},
		members:    2,
		serve: func(s *server) []string {
			return []string{script, program, s.data(), s.at(0), s.at(1)}
		},
		open: openDuetime,
		leader: func(s *server, _ client) (string, error) {
			for _, address := range []string{s.at(0), s.at(1)} {
				member, err := duetime.New(duetime.Options{Server: address, Timeout: time.Second, AttemptsMax: 1})
				if err != nil {
					return "", err
				}
				_, err = member.GetTopic(context.Background(), &pb.GetTopicRequest{Name: topic})
				member.Close()
				if err == nil {
					return address, nil
				}
			}
			return "", errors.New("no member leads")
		},
	}
}

// redisMaster is the master's name for the sentinels.
const redisMaster = "jobs"

// writeRedisConfigs writes a file for each Redis and each sentinel, once: the programs note there which Redis is the master.
func writeRedisConfigs(s *server) [][]string {
	var commands [][]string
	for i := 0; i < 3; i++ {
		common := fmt.Sprintf("bind 127.0.0.1\ndir %q\n", s.copy(i))
		sentinel := common + fmt.Sprintf("port %d\nsentinel monitor %s 127.0.0.1 %d 2\n", s.ports[i], redisMaster, s.ports[3]) +
			fmt.Sprintf("sentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", redisMaster)
		// By default the master waits 5 s for other replicas that want the same snapshot.
		server := common + fmt.Sprintf("port %d\nsave \"\"\nappendonly yes\nappendfsync everysec\n", s.ports[3+i]) +
			"repl-diskless-sync-delay 0\n"
		if i > 0 {
			server += fmt.Sprintf("replicaof 127.0.0.1 %d\n", s.ports[3])
		}
		_ = os.WriteFile(s.config("sentinel", i), []byte(sentinel), 0o644)
		_ = os.WriteFile(s.config("redis", i), []byte(server), 0o644)
		commands = append(commands, []string{"mkdir", "-p", s.copy(i)})
	}
	return commands
}

// silent drops what the library says about masters that come and go.
type silent struct{}

func (silent) Printf(context.Context, string, ...interface{}) {}

// redisReplicatedPeer is a master, two replicas and three sentinels, which clients ask for the master.
func redisReplicatedPeer() *peer {
	redis.SetLogger(silent{})
	return &peer{
		name:       "Redis, 2 replicas, WAIT 1",
		durability: inMemory,
		version:    []string{"redis-server", "--version"},
		members:    3,
		create:     writeRedisConfigs,
		serve: func(s *server) []string {
			var programs [][]string
			for i := 0; i < 3; i++ {
				programs = append(programs, []string{"redis-server", s.config("redis", i)},
					[]string{"redis-server", s.config("sentinel", i), "--sentinel"})
			}
			return together(programs)
		},
		open: func(addresses string, callMost time.Duration) (client, error) {
			// WAIT ends before the client stops waiting for its answer.
			return openRedis(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redisMaster,
				SentinelAddrs: strings.Split(addresses, ","), PoolSize: 256, MaxRetries: -1, ReadTimeout: callMost}), callMost/2)
		},
		leader: func(s *server, _ client) (string, error) {
			sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.at(0)})
			defer sentinel.Close()
			words, err := sentinel.GetMasterAddrByName(context.Background(), redisMaster).Result()
			if err != nil {
				return "", err
			}
			return net.JoinHostPort(words[0], words[1]), nil
		},
	}
}

// natsReplicatedPeer is a cluster of three servers, each with a copy of the stream.
func natsReplicatedPeer(program string) *peer {
	return &peer{
		name:          "NATS JetStream, 3 replicas",
		durability:    inMemory,
		version:       []string{program, "--version"},
		noBatchCancel: true,
		members:       3,
		serve: func(s *server) []string {
			var programs [][]string
			for i := 0; i < 3; i++ {
				config := fmt.Sprintf("server_name: nats%d\nlisten: %q\njetstream { store_dir: %q, max_file_store: 64GB }\n", i, s.at(i), s.copy(i)) +
					fmt.Sprintf("cluster { name: jobs, listen: %q, routes: [nats://%s, nats://%s, nats://%s] }\n", s.at(3+i), s.at(3), s.at(4), s.at(5))
				_ = os.WriteFile(s.config("nats", i), []byte(config), 0o644)
				programs = append(programs, []string{program, "--config", s.config("nats", i)})
			}
			return together(programs)
		},
		open: func(addresses string, callMost time.Duration) (client, error) {
			return openNATS(addresses, 3, callMost)
		},
		leader: func(_ *server, c client) (string, error) {
			info, err := c.(*natsClient).js.StreamInfo("jobs")
			if err != nil {
				return "", err
			}
			return info.Cluster.Leader + ".conf", nil
		},
	}
}

// copy is the directory of one of several copies.
func (s *server) copy(number int) string { return filepath.Join(s.data(), fmt.Sprint(number)) }

// config is the file with the settings of one of several programs.
func (s *server) config(program string, number int) string {
	return filepath.Join(s.folder, fmt.Sprintf("%s%d.conf", program, number))
}
