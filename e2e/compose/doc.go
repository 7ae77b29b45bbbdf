// Package compose holds docker-compose.yml to what it promises, without docker: its tests load it with the compose specification's own library,
// and each configuration with the code of the program that it is for.
//
// One more plays the capture through Kafka into nodetrail with the very configuration that the containers have.
package compose
