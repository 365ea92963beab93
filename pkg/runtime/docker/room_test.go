package docker

import (
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// TestLeftRoomsOfOthersAreNotSeen: who uses the engine from another container has
// other directories of the same names, and cannot tell whose owner lives.
func TestLeftRoomsOfOthersAreNotSeen(t *testing.T) {
	t.Parallel()
	fake := dockertest.Start(t, dockertest.Options{})
	for name, view := range map[string]string{"mine": roomView(), "theirs": "mnt:[1]"} {
		fake.AddVolume(name, map[string]string{labelProject: name, labelRoom: "/rooms/" + name, labelRoomView: view})
	}
	fake.AddVolume("no-room", map[string]string{labelProject: "kept"})
	env := map[string]string{"DOCKER_HOST": fake.Host()}
	rooms, err := LeftRooms(t.Context(), Surroundings{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	if len(rooms) != 1 || rooms[0].ID != "mine" || rooms[0].Room != "/rooms/mine" {
		t.Errorf("rooms %+v", rooms)
	}
}
