"""The study of Hou, Wang and Feng (2018): wavefront loops by compensation, by tiles and hybrid."""
