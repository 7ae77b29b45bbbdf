package killtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
)

// What a gateway has answered 200 is in Kafka, whenever the gateway is killed.
func TestGateway(t *testing.T) {
	brokers := kafkatest.Start(t, kafkatest.Options{}).Addresses()
	topic(t, brokers, "audit", 6)
	want, lines := analyze(t), capture(t)
	rnd := rand.New(rand.NewPCG(10, 10))
	addr, dir := freePort(t), t.TempDir()
	list, err := json.Marshal(brokers)
	if err != nil {
		t.Fatal(err)
	}
	gateway := filepath.Join(dir, "gateway.yaml")
	text := fmt.Sprintf("data: %q\nlisten: 127.0.0.1:0\ngateway: {webhook: {listen: %q}, kafka: {brokers: %s, topic: audit}}\n", filepath.Join(dir, "data"), addr, list)
	if err := os.WriteFile(gateway, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := config(t, kafkaConfig(brokers, "audit"))
	analyzer := start(t, "run", "--config", conf)
	sent := background(t, func(ctx context.Context) { post(ctx, t, "http://"+addr+"/audit", lines, 10*time.Second) })
	for range 15 {
		p := start(t, "gateway", "--config", gateway)
		pause(rnd, 100*time.Millisecond, 1200*time.Millisecond)
		p.kill()
	}
	p := start(t, "gateway", "--config", gateway)
	sent()
	waitFor(t, conf, want, analyzer, p)
	p.stop()
	analyzer.stop()
	compare(t, want, report(t, conf), false)
}
