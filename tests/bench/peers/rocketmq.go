// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	"golang.org/x/sync/errgroup"
)

const rocketTopic = "jobs"

// rocketmqPeer needs a folder with the jars of a name server and a broker.
func rocketmqPeer(jars string) *peer {
	return &peer{
		name:          "RocketMQ, sync flush",
		durability:    "synced before OK",
		version:       []string{"find", jars, "-name", "rocketmq-broker-*.jar", "-printf", "%f\n"},
		noBatchCancel: true,
		serve: func(s *server) []string {
			// The broker also listens on the ports two below and one above its own.
			names, broker := filepath.Join(s.folder, "names.conf"), filepath.Join(s.folder, "broker.conf")
			_ = os.WriteFile(names, []byte(fmt.Sprintf("listenPort=%d\n", s.ports[0])), 0o644)
			_ = os.WriteFile(broker, []byte(fmt.Sprintf("brokerClusterName=jobs\nbrokerName=jobs\nbrokerIP1=127.0.0.1\n"+
				"listenPort=%d\nnamesrvAddr=%s\nstorePathRootDir=%s\nstorePathCommitLog=%s/commitlog\n"+
				"flushDiskType=SYNC_FLUSH\ntimerWheelEnable=true\nwaitTimeMillsInSendQueue=10000\n", s.ports[3], s.at(0), s.data(), s.data())), 0o644)
			java := "java -Duser.home='" + s.folder + "' -cp '" + jars + "/*' "
			return []string{"env", "ROCKETMQ_HOME=" + s.folder, "bash", "-c",
				java + "-Xmx128m org.apache.rocketmq.namesrv.NamesrvStartup -c '" + names + "' & exec " +
					java + "-Xms1g -Xmx1g -XX:MaxDirectMemorySize=1g org.apache.rocketmq.broker.BrokerStartup -c '" + broker + "'"}
		},
		open: openRocket,
	}
}

type rocketClient struct {
	names    primitive.NamesrvAddr
	producer rocketmq.Producer
}

// openRocket sends one message, because the first one makes the topic, and because a broker that runs may not be registered
// with the name server yet.
func openRocket(address string, _ time.Duration) (client, error) {
	rlog.SetLogLevel("fatal")
	names := primitive.NamesrvAddr{address}
	made, err := producer.NewDefaultProducer(producer.WithNsResolver(primitive.NewPassthroughResolver(names)),
		producer.WithInstanceName(address), producer.WithRetry(0))
	if err != nil {
		return nil, err
	}
	c := &rocketClient{names: names, producer: made}
	if err = made.Start(); err == nil {
		_, err = made.SendSync(context.Background(), primitive.NewMessage(rocketTopic, make([]byte, 16)))
	}
	if err != nil {
		_ = made.Shutdown()
		return nil, err
	}
	return c, nil
}

func (c *rocketClient) close() { _ = c.producer.Shutdown() }

// send sends a message that the broker keeps until due, in ms since 1970, and returns its id. cancels is the id of the message
// that the broker then drops, or empty.
func (c *rocketClient) send(payload []byte, due, cancels string) (string, error) {
	message := primitive.NewMessage(rocketTopic, payload)
	message.WithProperty("TIMER_DELIVER_MS", due)
	if cancels != "" {
		message.WithProperty("TIMER_DEL_UNIQKEY", rocketTopic+"+"+cancels)
	}
	result, err := c.producer.SendSync(context.Background(), message)
	if err != nil {
		return "", err
	}
	if result.Status != primitive.SendOK {
		return "", fmt.Errorf("send status %d", result.Status)
	}
	return result.MsgID, nil
}

// schedule sends up to 64 messages of a batch at once: RocketMQ does not take timed messages in batches.
func (c *rocketClient) schedule(jobs []job) ([]string, error) {
	ids := make([]string, len(jobs))
	var group errgroup.Group
	group.SetLimit(64)
	for i, job := range jobs {
		i, job := i, job
		group.Go(func() error {
			due := strconv.FormatInt(job.due.UnixMilli(), 10)
			id, err := c.send(job.payload, due, "")
			ids[i] = due + " " + id
			return err
		})
	}
	return ids, group.Wait()
}

// cancel sends a second timed message, for which the broker drops the first one when both are due. The broker does not say
// whether the first one exists.
func (c *rocketClient) cancel(ids []string) error {
	due, id, _ := strings.Cut(ids[0], " ")
	_, err := c.send([]byte("cancel"), due, id)
	return err
}

// consume counts an ack when the handler returns: the client reports its offset every few seconds, and gets no confirmation.
func (c *rocketClient) consume(ctx context.Context, sink *sink) error {
	made, err := consumer.NewPushConsumer(consumer.WithNsResolver(primitive.NewPassthroughResolver(c.names)),
		consumer.WithGroupName("workers"), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeMessageBatchMaxSize(32), consumer.WithConsumeGoroutineNums(16))
	if err != nil {
		return err
	}
	err = made.Subscribe(rocketTopic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				if len(message.Body) == payloadBytes {
					sink.delivered(message.Body)
					sink.acked(1)
				}
			}
			return consumer.ConsumeSuccess, nil
		})
	if err == nil {
		err = made.Start()
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	return made.Shutdown()
}
