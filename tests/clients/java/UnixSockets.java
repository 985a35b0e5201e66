// Lets the PostgreSQL driver reach a server's Unix socket, for tests whose servers have no other. Java 16 or later.
//
//     jdbc:postgresql://localhost/app?socketFactory=UnixSockets&socketFactoryArg=/folder/.s.PGSQL.5432

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import javax.net.SocketFactory;

public class UnixSockets extends SocketFactory {
    private final UnixDomainSocketAddress server;

    public UnixSockets(String path) {
        server = UnixDomainSocketAddress.of(path);
    }

    @Override
    public Socket createSocket() throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        return new Socket() {
            @Override public void connect(SocketAddress to, int ms) throws IOException { channel.connect(server); }
            @Override public InputStream getInputStream() { return Channels.newInputStream(channel); }
            @Override public OutputStream getOutputStream() { return Channels.newOutputStream(channel); }
            @Override public boolean isConnected() { return channel.isConnected(); }
            @Override public boolean isClosed() { return !channel.isOpen(); }
            @Override public void close() throws IOException { channel.close(); }
            // These options belong to TCP, and are not needed here.
            @Override public void setTcpNoDelay(boolean on) {}
            @Override public void setKeepAlive(boolean on) {}
            @Override public void setSoTimeout(int timeout) {}
            @Override public int getSoTimeout() { return 0; }
            @Override public void setReceiveBufferSize(int size) {}
            @Override public void setSendBufferSize(int size) {}
            @Override public int getReceiveBufferSize() { return 8192; }
            @Override public int getSendBufferSize() { return 8192; }
        };
    }

    // The driver calls none of these.
    @Override public Socket createSocket(String to, int port) { throw new AssertionError(); }
    @Override public Socket createSocket(InetAddress to, int port) { throw new AssertionError(); }
    @Override public Socket createSocket(String to, int port, InetAddress at, int by) { throw new AssertionError(); }
    @Override public Socket createSocket(InetAddress to, int p, InetAddress a, int q) { throw new AssertionError(); }
}
