// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// table holds the clients, streams or workers by their names.
type table[Value any] struct {
	mutex  sync.Mutex
	values map[string]Value
}

func (t *table[Value]) put(name string, value Value) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.values == nil {
		t.values = map[string]Value{}
	}
	t.values[name] = value
}

func (t *table[Value]) find(name string) (Value, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	value, found := t.values[name]
	if !found {
		return value, fmt.Errorf("unknown name: %q", name)
	}
	return value, nil
}

func (t *table[Value]) remove(name string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.values, name)
}

func (t *table[Value]) all() []Value {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var values []Value
	for _, value := range t.values {
		values = append(values, value)
	}
	return values
}

// driver makes the calls of the requests.
type driver struct {
	ops     map[string]func(*request) (any, error)
	clients table[*duetime.Client]
	streams table[*duetime.ScheduleStream]
	workers table[*worker]
}

func newDriver() *driver {
	d := &driver{ops: map[string]func(*request) (any, error){}}
	d.ops["hello"] = func(*request) (any, error) { return object{"language": "go", "lacks": []string{}}, nil }
	d.ops["client_open"] = d.openClient
	d.ops["client_close"] = func(r *request) (any, error) {
		client, err := d.clients.find(r.Client)
		if err != nil {
			return nil, err
		}
		d.clients.remove(r.Client)
		return object{}, client.Close()
	}
	d.addMessages()
	d.addTogether()
	d.addAdmin()
	d.addRecurrences()
	d.addLists()
	d.addStreams()
	d.addWorkers()
	return d
}

// close ends everything, within 10 s.
func (d *driver) close() {
	var waiting sync.WaitGroup
	for _, w := range d.workers.all() {
		waiting.Add(1)
		go func(w *worker) {
			defer waiting.Done()
			w.close()
		}(w)
	}
	for _, stream := range d.streams.all() {
		stream.Cancel()
	}
	waiting.Wait()
	for _, client := range d.clients.all() {
		_ = client.Close()
	}
}

func (d *driver) openClient(r *request) (any, error) {
	var fields struct {
		Server    string `json:"server"`
		CA        string `json:"tls_ca"`
		Cert      string `json:"tls_cert"`
		Key       string `json:"tls_key"`
		Token     string `json:"token"`
		TimeoutMs *int64 `json:"timeout_ms"`
	}
	if err := r.read(&fields); err != nil {
		return nil, err
	}
	options := duetime.Options{Server: fields.Server, Token: fields.Token, Timeout: millis(fields.TimeoutMs, 0)}
	if fields.CA != "" || fields.Cert != "" || fields.Key != "" {
		config, err := duetime.LoadTLS(fields.CA, fields.Cert, fields.Key)
		if err != nil {
			return nil, err
		}
		options.TLS = config
	}
	client, err := duetime.New(options)
	if err != nil {
		return nil, err
	}
	d.clients.put(r.Client, client)
	return object{}, nil
}

// message converts a request to the library's own type.
func message(request *pb.ScheduleRequest) duetime.Message {
	m := duetime.Message{
		Topic:        request.Topic,
		Payload:      request.Payload,
		Attributes:   request.Attributes,
		When:         when(request.GetDeliverTime(), request.GetDelay(), request.GetCivilTime()),
		Key:          request.Key,
		OnConflict:   request.OnConflict,
		MaxWait:      request.MaxWait.AsDuration(),
		OnlyIfExists: request.OnlyIfExists,
		RequestID:    request.RequestId,
		ValidateOnly: request.ValidateOnly,
		Labels:       request.Labels,
		OrderingKey:  request.OrderingKey,
		TTL:          request.GetTtl().AsDuration(),
		LatePolicy:   request.LatePolicy,
		Spread:       request.Spread.AsDuration(),
	}
	if request.GetExpireTime() != nil {
		m.ExpireTime = request.GetExpireTime().AsTime()
	}
	return m
}

// target converts the target of a request.
func target(request interface {
	GetMessageId() string
	GetKey() *pb.TopicKey
}) duetime.Target {
	if key := request.GetKey(); key != nil {
		return duetime.ByKey(key.Topic, key.Key)
	}
	return duetime.ByID(request.GetMessageId())
}

// add registers an op whose request is a proto.
func add[Request any, Pointer interface {
	*Request
	proto.Message
}](d *driver, op string, run func(context.Context, *duetime.Client, Pointer) (any, error)) {
	d.ops[op] = func(r *request) (any, error) {
		client, err := d.clients.find(r.Client)
		if err != nil {
			return nil, err
		}
		body := Pointer(new(Request))
		if err := parse(r.Body, body); err != nil {
			return nil, err
		}
		return run(r.ctx, client, body)
	}
}

// in puts a resource into the field of an answer.
func in(field string, message proto.Message, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return object{field: toJSON(message)}, nil
}

func whole(message proto.Message, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return toJSON(message), nil
}

func resultJSON(response proto.Message, err error) object {
	if err != nil {
		return object{"error": errorJSON(err)}
	}
	return object{"ok": toJSON(response)}
}

func (d *driver) addMessages() {
	add(d, "schedule", func(ctx context.Context, c *duetime.Client, r *pb.ScheduleRequest) (any, error) {
		if r.When == nil {
			// A Message always has a time.
			return whole(c.ScheduleRequest(ctx, r))
		}
		return whole(c.Schedule(ctx, message(r)))
	})
	add(d, "schedule_batch", func(ctx context.Context, c *duetime.Client, r *pb.ScheduleBatchRequest) (any, error) {
		results, err := c.ScheduleBatch(ctx, messages(r.Messages))
		if err != nil {
			return nil, err
		}
		list := []object{}
		for _, result := range results {
			list = append(list, resultJSON(result.Response, result.Err))
		}
		return object{"results": list}, nil
	})
	add(d, "cancel", func(ctx context.Context, c *duetime.Client, r *pb.CancelRequest) (any, error) {
		var options []duetime.CancelOption
		if r.StopRedelivery {
			options = append(options, duetime.StopRedelivery())
		}
		result, err := c.Cancel(ctx, target(r), options...)
		if err != nil {
			return nil, err
		}
		return toJSON(result.CancelResponse), nil
	})
	add(d, "cancel_batch", func(ctx context.Context, c *duetime.Client, r *pb.CancelBatchRequest) (any, error) {
		var targets []duetime.Target
		for _, cancel := range r.Cancels {
			targets = append(targets, target(cancel))
		}
		results, err := c.CancelBatch(ctx, targets)
		if err != nil {
			return nil, err
		}
		list := []object{}
		for _, result := range results {
			list = append(list, resultJSON(result.CancelResponse, result.Err))
		}
		return object{"results": list}, nil
	})
	add(d, "reschedule", func(ctx context.Context, c *duetime.Client, r *pb.RescheduleRequest) (any, error) {
		var options []duetime.RescheduleOption
		if r.Etag != "" {
			options = append(options, duetime.IfEtag(r.Etag))
		}
		return whole(c.Reschedule(ctx, target(r), when(r.GetDeliverTime(), r.GetDelay(), r.GetCivilTime()), options...))
	})
	add(d, "get", func(ctx context.Context, c *duetime.Client, r *pb.GetRequest) (any, error) {
		var options []duetime.GetOption
		if r.View == pb.MessageView_MESSAGE_VIEW_FULL {
			options = append(options, duetime.WithContent())
		}
		return whole(c.Get(ctx, target(r), options...))
	})
	add(d, "explain", func(ctx context.Context, c *duetime.Client, r *pb.ExplainRequest) (any, error) {
		return whole(c.Explain(ctx, target(r)))
	})
	add(d, "pull", func(ctx context.Context, c *duetime.Client, r *pb.PullRequest) (any, error) {
		return whole(c.Pull(ctx, r))
	})
	add(d, "settle", func(ctx context.Context, c *duetime.Client, r *pb.SettleRequest) (any, error) {
		result, err := c.Settle(ctx, r)
		if err != nil {
			return nil, err
		}
		return toJSON(result.SettleResponse), nil
	})
}

// addAdmin registers each call of the service Admin.
func (d *driver) addAdmin() {
	methods := pb.File_duetime_v1_admin_proto.Services().Get(0).Methods()
	for i := 0; i < methods.Len(); i++ {
		name := string(methods.Get(i).Name())
		d.ops[snakeCase(name)] = func(r *request) (any, error) {
			client, err := d.clients.find(r.Client)
			if err != nil {
				return nil, err
			}
			method := reflect.ValueOf(client.AdminClient).MethodByName(name)
			body := reflect.New(method.Type().In(1).Elem())
			if err := parse(r.Body, body.Interface().(proto.Message)); err != nil {
				return nil, err
			}
			results := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), body})
			err, _ = results[1].Interface().(error)
			return whole(results[0].Interface().(proto.Message), err)
		}
	}
}

// snakeCase returns "get_topic" for "GetTopic".
func snakeCase(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}

func (d *driver) addRecurrences() {
	add(d, "create_recurrence", func(ctx context.Context, c *duetime.Client, r *pb.CreateRecurrenceRequest) (any, error) {
		recurrence, err := c.CreateRecurrence(ctx, r)
		return in("recurrence", recurrence, err)
	})
	add(d, "get_recurrence", func(ctx context.Context, c *duetime.Client, r *pb.GetRecurrenceRequest) (any, error) {
		recurrence, err := c.GetRecurrence(ctx, r.Name)
		return in("recurrence", recurrence, err)
	})
	add(d, "update_recurrence", func(ctx context.Context, c *duetime.Client, r *pb.UpdateRecurrenceRequest) (any, error) {
		recurrence, err := c.UpdateRecurrence(ctx, r)
		return in("recurrence", recurrence, err)
	})
	add(d, "pause_recurrence", func(ctx context.Context, c *duetime.Client, r *pb.PauseRecurrenceRequest) (any, error) {
		recurrence, err := c.PauseRecurrence(ctx, r.Name)
		return in("recurrence", recurrence, err)
	})
	add(d, "resume_recurrence", func(ctx context.Context, c *duetime.Client, r *pb.ResumeRecurrenceRequest) (any, error) {
		recurrence, err := c.ResumeRecurrence(ctx, r.Name)
		return in("recurrence", recurrence, err)
	})
	add(d, "delete_recurrence", func(ctx context.Context, c *duetime.Client, r *pb.DeleteRecurrenceRequest) (any, error) {
		cancelled, err := c.DeleteRecurrence(ctx, r.Name)
		return object{"occurrence_cancelled": cancelled}, err
	})
	add(d, "preview_recurrence", func(ctx context.Context, c *duetime.Client, r *pb.PreviewRecurrenceRequest) (any, error) {
		return whole(c.PreviewRecurrence(ctx, r))
	})
}

// addList registers an op that reads a list with the library's iterator.
func addList[Request any, Item proto.Message, Pointer interface {
	*Request
	proto.Message
}](d *driver, op string, list func(*duetime.Client, Pointer) *duetime.Iterator[Item]) {
	d.ops[op] = func(r *request) (any, error) {
		client, err := d.clients.find(r.Client)
		if err != nil {
			return nil, err
		}
		body := Pointer(new(Request))
		if err := parse(r.Body, body); err != nil {
			return nil, err
		}
		items := []any{}
		iterator := list(client, body)
		for (r.Limit == nil || len(items) < *r.Limit) && iterator.Next(context.Background()) {
			items = append(items, toJSON(iterator.Item()))
		}
		return object{"items": items}, iterator.Err()
	}
}

func (d *driver) addLists() {
	addList(d, "list", (*duetime.Client).List)
	addList(d, "list_topics", (*duetime.Client).ListTopics)
	addList(d, "list_subscriptions", (*duetime.Client).ListSubscriptions)
	addList(d, "list_operations", (*duetime.Client).ListOperations)
	addList(d, "list_recurrences", (*duetime.Client).ListRecurrences)
}
