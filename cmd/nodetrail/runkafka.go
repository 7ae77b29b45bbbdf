package main

import (
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/sinks"
)

func kafkaSink(c *config.KafkaSink, log zerolog.Logger) (sinks.Sender, error) {
	return nil, nil
}
